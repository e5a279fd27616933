package server

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/budget"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/internal/turn"
	"github.com/tandem-rpc/tandem/transport"
)

// Conn is a connection that a [Protocol] serves, and through which it calls the server's
// methods. One goroutine may read at a time; everything else is safe for concurrent use.
type Conn struct {
	net.Conn

	server   *Server
	account  *budget.Account // memory that its requests hold
	accepted acceptedConn
	peer     *tandem.Peer
	ctx      context.Context //nolint:containedctx // the connection's own: what Serve is given
	cancel   context.CancelFunc
	slots    chan struct{} // has an element for each call in flight
	calls    sync.WaitGroup
	over     chan struct{} // closed when the connection has ended

	first  []byte // read to detect the protocol; Read returns it first
	midway bool   // part of a request has arrived
	armed  bool   // arm has set a read deadline
	left   int    // bytes until arm sets the read deadline again

	turn    turn.Turn
	backlog overload.Backlog // used by the goroutine that reads
	age     atomic.Int64     // ns that the bytes read last had waited in the kernel; 0 if not known

	mu       sync.Mutex
	running  *runningCall // the calls that wait or run, the latest first
	begun    int          // how many those are
	received uint64       // calls so far
	draining bool
	served   bool // Serve has returned
	onDrain  func()
	giveUp   func() // ends the reader's wait for memory; nil while there is none

	out outbox
}

func (s *Server) newConn(v acceptedConn, p Protocol, first []byte) *Conn {
	c := v.conn
	conn := &Conn{
		Conn: c, server: s, accepted: v, first: first,
		peer:  &tandem.Peer{Addr: c.RemoteAddr(), LocalAddr: c.LocalAddr(), TLS: transport.TLSState(c), Protocol: p.Name()},
		slots: make(chan struct{}, s.opts.maxOpen),
		over:  make(chan struct{}),
	}
	conn.ctx, conn.cancel = context.WithCancel(s.base)
	conn.account = s.memory.Account()
	conn.turn.Init(s.turns)
	conn.backlog.Waited(s.env.Now())
	conn.out.room.L = &conn.out.mu
	return conn
}

// Peer describes the other end. It must not be changed.
func (c *Conn) Peer() *tandem.Peer { return c.peer }

// Addrs returns the addresses that the server listens on, as [Server.Addrs].
func (c *Conn) Addrs() []net.Addr { return c.server.Addrs() }

// Missing returns net/rpc's error for a method that does not exist, whose text its clients may
// compare. It returns nil if the method exists.
func (c *Conn) Missing(name string) error {
	dot := strings.LastIndexByte(name, '.')
	switch t := c.server.table; {
	case t.Lookup(name) != nil:
		return nil
	case dot < 0:
		return errors.New("rpc: service/method request ill-formed: " + name)
	case !t.HasService(name[:dot]):
		return errors.New("rpc: can't find service " + name)
	}
	return errors.New("rpc: can't find method " + name)
}

// Go calls the method call.Method in another goroutine, with the server's limits, interceptors
// and plugins. The protocol fills in what the request says: Method, Kind, Metadata, Codec,
// Deadline, and a Body of its own, whose Decode runs after the interceptors.
//
// done is called exactly once, with the call's error, when the call has ended; a method that
// does not exist is passed to [Conn.NoMethod]. The Call must not be used after done has
// returned. Go waits while the connection has [WithMaxOpenCalls] calls in flight; done must not
// call it. ctx is the parent of the handler's context: Serve's, or one that is derived from it.
func (c *Conn) Go(ctx context.Context, call *tandem.Call, done func(error)) {
	m := c.server.table.Lookup(call.Method)
	if m == nil {
		c.NoMethod(ctx, call, dispatch.ErrAbsent(call), done)
		return
	}
	c.server.foreign.calls.Add(1)
	c.start(ctx, m, call, doneFunc(done))
}

// Answerer answers a call.
type Answerer interface {
	// Answer is called exactly once, with the call's error, when the call has ended. here says that it
	// is called by [Conn.GoHere], in the same goroutine.
	Answer(here bool, err error)
}

// doneFunc is the Answerer of [Conn.Go].
type doneFunc func(error)

func (f doneFunc) Answer(_ bool, err error) { f(err) }

// GoHere is [Conn.Go] for the goroutine that reads the connection: it makes the call itself if calls
// of the method have been short, and if the server is not overloaded.
//
// If the call takes long after all, takeOver is called in another goroutine, which reads the
// connection from then on. GoHere returns false when the call has ended: the goroutine that called it
// must not read any more, nor use what the other one uses.
//
// A method may end the goroutine that runs it ([runtime.Goexit]): then takeOver is called too, and
// GoHere does not return. So Serve must wait for the end of the reading in a deferred function.
func (c *Conn) GoHere(ctx context.Context, call *tandem.Call, a Answerer, takeOver func()) (reads bool) {
	m := c.server.table.Lookup(call.Method)
	if m == nil {
		c.NoMethod(ctx, call, dispatch.ErrAbsent(call), func(err error) { a.Answer(false, err) })
		return true
	}
	c.server.foreign.calls.Add(1)
	r := c.begin(ctx, m, call, a)
	switch {
	case r == nil:
		return true
	case !r.method.short() || c.server.guard != nil && c.server.guard.gate.Guarding():
		c.server.helpers.run(r.runApart)
		return true
	}
	return r.runHere(takeOver)
}

// note counts a call that ends before it has begun.
func (c *Conn) note() {
	c.server.foreign.calls.Add(1)
	c.mu.Lock()
	c.received++
	c.mu.Unlock()
}

// start makes a call in another goroutine, when the connection has a free slot.
func (c *Conn) start(ctx context.Context, m *dispatch.Method, call *tandem.Call, a Answerer) {
	if r := c.begin(ctx, m, call, a); r != nil {
		c.server.helpers.run(r.runApart)
	}
}

// begin returns a call that may run now, when the connection has a free slot. It returns nil for a
// call that has ended, or will be run by the gate.
func (c *Conn) begin(ctx context.Context, m *dispatch.Method, call *tandem.Call, a Answerer) *runningCall {
	select {
	case c.slots <- struct{}{}:
	default:
		select {
		case c.slots <- struct{}{}:
		case <-ctx.Done():
			a.Answer(false, notStarted(ctx.Err()))
			return nil
		}
	}
	if call.Peer == nil {
		call.Peer = c.peer
	}
	c.countFromArrival(call)
	c.server.limitTime(m, call)
	r := newRunningCall(c, c.server.methods.of(m), call)
	r.Init(ctx, call.Deadline)
	r.answerer = a
	if !c.enter(r) { // requests of HTTP/2 may begin while the connection ends
		<-c.slots
		a.Answer(false, notStarted(context.Canceled))
		return nil
	}
	if c.server.guard != nil && !c.admit(r) {
		return nil
	}
	return r
}

// countFromArrival moves the call's deadline back by the time that the request waited in the
// kernel: protocols compute the deadline when they read the request.
func (c *Conn) countFromArrival(call *tandem.Call) {
	if c.server.guard == nil || call.Deadline.IsZero() || call.Kind == tandem.Streaming {
		return
	}
	call.Deadline = call.Deadline.Add(-time.Duration(c.age.Load()))
}

// leaveCall notes that a call has ended.
func (c *Conn) leaveCall(r *runningCall) {
	c.mu.Lock()
	c.removeLocked(r)
	c.mu.Unlock()
	<-c.slots
	c.calls.Done()
}

// enter lists a call that begins. It returns false when Serve has returned: then no further call
// may begin.
func (c *Conn) enter(r *runningCall) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received++
	if !c.served {
		c.calls.Add(1)
		c.addLocked(r)
	}
	return !c.served
}

// wait waits for the calls that Serve has begun.
func (c *Conn) wait() {
	c.mu.Lock()
	c.served = true
	c.mu.Unlock()
	c.calls.Wait()
}

// limitTime shortens the call's deadline to the timeout of the method, or else of the server.
func (s *Server) limitTime(m *dispatch.Method, call *tandem.Call) {
	timeout := s.opts.timeout
	if m.Timeout != 0 {
		timeout = max(0, m.Timeout)
	}
	if timeout <= 0 {
		return
	}
	if d := time.Now().Add(timeout); call.Deadline.IsZero() || d.Before(call.Deadline) {
		call.Deadline = d
	}
}

// panicked reports a panic to the log and the plugins, and returns an error for it.
func (s *Server) panicked(what string, value any) error {
	return dispatch.Died(what, value, s.onPanic)
}

// Midway sets whether part of a request has arrived. While that is so, Read fails unless the
// peer sends 64 KiB of the request, or its rest, within [WithStallTimeout]. Before the first
// request, and between requests, Read has no deadline.
func (c *Conn) Midway(on bool) {
	if on != c.midway {
		c.midway, c.left = on, 0
	}
}

// stallBytes is how many bytes a peer has to send within the stall timeout.
const stallBytes = 64 << 10

// Read reads what the peer sends. When the server drains it returns io.EOF: no
// more requests are accepted, unless OnDrain was called.
func (c *Conn) Read(p []byte) (int, error) {
	if len(c.first) > 0 {
		n := copy(p, c.first)
		if c.first = c.first[n:]; len(c.first) == 0 {
			c.first = nil
		}
		c.noteRead(n)
		return n, nil
	}
	if err := c.arm(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	c.left -= n
	c.noteRead(n)
	if err != nil && c.stopped() {
		err = io.EOF
	}
	return n, err
}

// ReadLazy is Read for protocols whose idle connections hold no buffer: it waits until there are
// bytes, takes a buffer from l, and reads into it.
func (c *Conn) ReadLazy(l transport.Lender) ([]byte, int, error) {
	t, ok := c.Conn.(*transport.Conn)
	if !ok || len(c.first) > 0 {
		buf := l.Take()
		n, err := c.Read(buf)
		return buf, n, err
	}
	if err := c.arm(); err != nil {
		return nil, 0, err
	}
	buf, n, err := t.ReadLazy(l)
	c.left -= n
	c.noteRead(n)
	if err != nil && c.stopped() {
		err = io.EOF
	}
	return buf, n, err
}

// noteRead notes how long the n bytes that were read have waited in the kernel.
func (c *Conn) noteRead(n int) {
	g := c.server.guard
	if g == nil {
		return
	}
	now := c.server.env.Now()
	if c.backlog.Read(n, now, g.gate.Every()) || g.gate.Guarding() {
		if t, ok := c.Conn.(*transport.Conn); ok {
			r, _ := t.Received()
			c.backlog.Count(r.Unread, r.Age, now)
			g.gate.Behind(time.Duration(c.backlog.Age()))
		}
	}
	c.age.Store(c.backlog.Age())
}

// arm sets or removes the read deadline of a request, if that has to change.
func (c *Conn) arm() error {
	var deadline time.Time
	switch {
	case c.midway && c.left <= 0:
		deadline, c.left, c.armed = time.Now().Add(c.server.opts.stall), stallBytes, true
	case !c.midway && c.armed:
		c.armed = false
	default:
		return nil
	}
	return c.SetReadDeadline(deadline)
}

// SetReadDeadline sets the deadline of reads. It does nothing when the server
// drains and reads return io.EOF.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.draining && c.onDrain == nil {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline sets the deadlines of reads and writes.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// OnDrain makes Read go on when the server begins to drain the connection, and calls f then,
// once and in another goroutine: for protocols that tell their peers to go elsewhere. Serve,
// which calls OnDrain, must return when the peer's calls are answered, and f when the
// connection has ended.
func (c *Conn) OnDrain(f func()) {
	c.mu.Lock()
	late := c.draining
	c.onDrain = f
	c.mu.Unlock()
	if late {
		_ = c.Conn.SetReadDeadline(time.Time{}) // if the connection is closed, the next Read fails
		c.server.wg.Go(f)                       // f may wait for what Serve does next
	}
}

// past is a deadline that ends a read at once.
var past = time.Unix(1, 0)

// drain begins the end of the connection: Read returns io.EOF from now on, or OnDrain's
// function is called.
func (c *Conn) drain() {
	c.mu.Lock()
	f, begun := c.onDrain, c.draining
	c.draining = true
	if !begun && f == nil {
		_ = c.Conn.SetReadDeadline(past) // if the connection is closed, the next Read fails
		if c.giveUp != nil {
			c.giveUp()
		}
	}
	c.mu.Unlock()
	if !begun && f != nil {
		f()
	}
}

// waits stores the function that ends the reader's wait for memory, or nil when the wait is
// over. The peer then has the full stall timeout again.
func (c *Conn) waits(giveUp func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveUp = giveUp
	switch {
	case giveUp == nil:
		c.left = 0
	case c.draining && c.onDrain == nil:
		giveUp()
	}
}

func (c *Conn) isDraining() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// stopped reports whether reads return io.EOF.
func (c *Conn) stopped() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining && c.onDrain == nil
}

// await drains the connection and waits for its end. When ctx ends first it
// closes it and returns ctx's error.
func (c *Conn) await(ctx context.Context) error {
	drained := make(chan struct{})
	go func() {
		c.drain() // which may write
		close(drained)
	}()
	defer func() { <-drained }() // soon: the connection is closed
	select {
	case <-c.over:
		return nil
	case <-ctx.Done():
		c.end()
		return ctx.Err()
	}
}

// end closes the connection at once.
func (c *Conn) end() {
	c.cancel()
	_ = c.Conn.Close() // its error changes nothing
}

// Limits of what closeLingering reads and discards before it closes a connection.
const (
	lingerTime  = 500 * time.Millisecond
	lingerBytes = 64 << 10
)

// closeLingering closes the connection so that the last responses arrive: closing with unread bytes
// resets it, and the peer would lose responses that it has not read yet. After lingerBytes it
// stops reading, but the client still has the rest of lingerTime to read the responses.
func (c *Conn) closeLingering() {
	defer c.end()
	by := time.Now().Add(lingerTime)
	if c.Conn.SetDeadline(by) != nil { // it is closed already
		return
	}
	w, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || w.CloseWrite() != nil {
		return
	}
	if n, _ := io.CopyN(io.Discard, c.Conn, lingerBytes); n < lingerBytes {
		return
	}
	rest := time.NewTimer(time.Until(by))
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-c.ctx.Done(): // the server is closed, or the peer broke its protocol
	}
}
