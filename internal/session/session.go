package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/budget"
	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

var errFlood = errors.New("the peer floods or does not read")

// Session is one connection with its calls in both directions. It is safe for
// concurrent use.
type Session struct {
	// What every call needs comes first, here as in machine: with thousands of
	// connections none of it is in a cache, and each line of a cache that a call needs
	// is a wait for memory.
	env  *Env
	conn *transport.Conn
	peer *tandem.Peer
	mu   sync.Mutex

	// Reading by callers, see direct.go; guarded by mu.
	parked      *reader  // whose turn nobody has; nil while somebody reads
	reading     *Pending // whose caller reads; nil while a goroutine does
	receiving   *Stream  // likewise, whose receiver reads
	callersRead bool
	relieved    bool        // that caller is to hand over
	hasty       bool        // a caller has read that could be cancelled; until the next tick
	leaves      bool        // monitor only: the list
	watched     atomic.Bool // the monitor does

	clock                 // the Env's
	received atomic.Int64 // when bytes last came
	nextTick int64        // of the monitor at the latest; guarded by mu

	// Reading.
	turn    atomic.Uint64 // see reader
	running *method       // what the reader executes; valid while turn is odd
	current *reader       // whose turn it is; as above

	// Writing; guarded by mu.
	writing  bool // somebody is the writer
	yielding bool // who lets others run first
	reserved bool // a goroutine that will write is about to run
	thrift   yieldScore
	yields   uint64 // tells one yield from the next
	overdue  int64  // from when on others write instead
	written  uint64 // bytes that reached the connection
	offered  uint64 // bytes that may have: a write is at it
	turns    uint64 // times a stream receiver took over reading

	m machine // guarded by mu

	base    context.Context         // of handlers
	ends    atomic.Pointer[lasting] // see lasting
	drained chan struct{}           // the write buffer has room again; nil until somebody waits for it

	// Calls in goroutines of their own, see room.go; guarded by mu.
	encoded  int             // bytes of their answers that are not queued yet
	room     chan struct{}   // holds a token when there is room again; nil until somebody waits
	account  *budget.Account // of large requests; nil for no limit
	caller   uint64          // hash of the caller, for the gate's queue; 0 until callerOf sets it
	encoding int32           // how many are encoding their answer
	starting atomic.Int32    // how many have not begun; not guarded

	backlog overload.Backlog // of the reader only

	// Of the monitor only, but rtt.
	rtt        atomic.Int64
	seenTurn   uint64
	held       int // how sure it is that a handler takes long
	outlook    lookout
	lastRTT    int64  // when the round trip was last measured
	seen       uint64 // frames received at the last look
	readBy     uint64 // the call whose caller read at the last tick
	sent       uint64 // calls made until the last tick
	quietSince int64  // when there first was nothing to watch; 0 while there is

	onDoubt func(bool) // see OnDoubt
	doubted bool       // what it was told; guarded by mu, as is onDoubt

	quiet  chan struct{} // nothing runs any more while draining; nil before
	onAway func()        // to be told that no more calls may be made; nil if nobody asked, or has been told
	once   sync.Once
	done   chan struct{}
	err    error // valid when done is closed
}

func (e *Env) newSession(ctx context.Context, c net.Conn) *Session {
	s := &Session{
		env: e, clock: e.clock, conn: transport.Wrap(c), base: ctx, done: make(chan struct{}),
	}
	s.peer = &tandem.Peer{Addr: c.RemoteAddr(), LocalAddr: c.LocalAddr(), Protocol: "tandem"}
	s.m.env, s.m.s = e, s
	s.account = e.cfg.Memory.Account()
	s.outlook.silence = e.cfg.Silence
	s.received.Store(s.now())
	return s
}

func (s *Session) remote() string {
	if a := s.peer.Addr; a != nil {
		return a.String()
	}
	return "the peer"
}

// Peer describes the other end; it must not be changed.
func (s *Session) Peer() *tandem.Peer { return s.peer }

// Env returns what the session shares with others.
func (s *Session) Env() *Env { return s.env }

// Settings returns what the peer accepts.
func (s *Session) Settings() wire.Settings { return s.m.peer }

// RTT returns the last measured round-trip time, 0 before the first.
func (s *Session) RTT() time.Duration { return time.Duration(s.rtt.Load()) }

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Accepted returns how many requests the peer has sent that were not refused as
// beyond the end of the session.
func (s *Session) Accepted() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.accepted
}

// Err says why the session ended; nil while it has not.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// lasting is a context that ends with the session. Few calls need it, and most
// connections have none of them.
type lasting struct {
	context.Context
	leave context.CancelFunc
}

func (s *Session) lasting() context.Context {
	l := s.ends.Load()
	if l == nil {
		ctx, leave := context.WithCancel(s.base)
		if l = (&lasting{ctx, leave}); !s.ends.CompareAndSwap(nil, l) {
			leave()
			l = s.ends.Load()
		}
		if s.Err() != nil {
			l.leave()
		}
	}
	return l
}

// OnAway has f called once: when the peer accepts no more calls, we make none, or
// the session has ended; at once if that is so already. f must neither block nor use
// the session. It takes the place of one that has not been called.
func (s *Session) OnAway(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onAway = f
	if !s.takesCallsLocked() {
		s.tellAwayLocked()
	}
}

// TakesCalls reports whether calls may be made.
func (s *Session) TakesCalls() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takesCallsLocked()
}

func (s *Session) takesCallsLocked() bool { return s.m.away == nil && s.m.closed == nil }

func (s *Session) tellAwayLocked() {
	if f := s.onAway; f != nil {
		s.onAway = nil
		f()
	}
}

// goneLocked notes that no more calls may be made, and why.
func (s *Session) goneLocked(why *wire.GoAway) {
	s.m.away = why
	s.tellAwayLocked()
}

// ErrDraining is in the chain of the error of a call that was not executed
// because the peer goes away or the connection is gone: nothing speaks against
// trying elsewhere.
var ErrDraining = errors.New("draining")

// Retire makes no more calls and closes the session when the last is answered.
func (s *Session) Retire() {
	s.mu.Lock()
	if s.m.away == nil {
		s.goneLocked(&wire.GoAway{Accepted: math.MaxUint64, Message: "retired"})
	}
	s.mu.Unlock()
	s.leaveIfAway()
}

// Outstanding returns how many calls of ours are open or queued, and how many
// of the peer's are running.
func (s *Session) Outstanding() (ours, theirs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.calls.open + len(s.m.queue), s.m.running
}

// ErrClosed is why a session ended that was closed by its owner.
var ErrClosed = errors.New("closed")

// Close ends the session at once. Calls in flight fail.
func (s *Session) Close() { s.fail(ErrClosed) }

// Drain tells the peer that no more calls are accepted, waits until the
// running ones are answered and the peer has hung up, and closes. When ctx
// ends first it closes at once and returns ctx's error.
func (s *Session) Drain(ctx context.Context, reason string) error {
	s.mu.Lock()
	if !s.m.draining {
		s.m.draining = true
		b := s.m.buf()
		b.B = wire.AppendGoAway(b.B, wire.GoAway{Accepted: s.m.accepted, Message: reason})
	}
	if s.quiet == nil {
		s.quiet = make(chan struct{}, 1)
	}
	idle, quiet := s.m.running == 0, s.quiet
	s.mu.Unlock()
	s.flush()
	defer s.Close()
	if !idle {
		select {
		case <-quiet:
			signal(quiet) // for another Drain that waits
		case <-s.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.linger(ctx)
}

// linger lets the last answers reach the peer: closing with unread bytes would
// reset the connection and destroy them on their way. The peer hangs up when it
// has them; one that does not gets a little time after the last byte went out.
func (s *Session) linger(ctx context.Context) error {
	s.flush()
	timer := time.NewTimer(drainLinger)
	defer timer.Stop()
	for {
		select {
		case <-s.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			if s.allAnswered() {
				return nil
			}
			timer.Reset(drainLinger)
		}
	}
}

// allAnswered reports whether every request that was accepted is answered:
// also those that were still arriving.
func (s *Session) allAnswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allAnsweredLocked()
}

func (s *Session) allAnsweredLocked() bool {
	for _, in := range s.m.served {
		if in != nil {
			return false
		}
	}
	return s.m.running == 0 && !s.writing && s.m.out == nil && len(s.m.ring.list) == 0
}

// leaveIfAway closes a connection whose peer goes away once nothing is left
// to wait for.
func (s *Session) leaveIfAway() {
	s.mu.Lock()
	over := s.m.away != nil && s.m.calls.open == 0 && len(s.m.queue) == 0 && s.allAnsweredLocked()
	reason := ""
	if over {
		reason = s.m.away.Message
	}
	s.mu.Unlock()
	if over {
		s.fail(fmt.Errorf("%w: the peer went away: %s", ErrClosed, reason))
	}
}

// fail ends the session, once: the reason goes to everybody who waits.
func (s *Session) fail(cause error) {
	s.once.Do(func() { s.end(cause) })
}

func (s *Session) end(cause error) {
	s.err = cause
	text := fmt.Sprintf("connection to %s ended: %v", s.remote(), cause)
	s.mu.Lock()
	s.m.closed = &tandem.Error{Code: tandem.Unavailable, Message: cause.Error()}
	words := s.farewellLocked(cause)
	over := s.m.lost(cause, s.offered, text)
	served := slices.Clone(s.m.served) // as its memory may be the session's
	s.m.served = nil
	for _, in := range served {
		if in != nil && in.request != nil { // it won't run
			in.hold.Release()
		}
		if in != nil && in.stream != nil {
			in.stream.endRecv(&tandem.Error{Code: tandem.Unavailable, Message: text})
		}
	}
	s.m.ring.list, s.m.incoming.list = nil, nil
	signal(s.drained)
	away := s.onAway
	s.onAway = nil
	s.mu.Unlock()
	if words == nil || !s.env.Spawn(func() { s.part(words) }) {
		_ = s.conn.Close() // its error says nothing that cause does not
	}
	close(s.done) // first: who hears that a call failed asks whether the session has ended
	if away != nil {
		away()
	}
	for _, p := range over {
		p.done <- struct{}{}
	}
	for _, in := range served {
		if in != nil {
			in.cancel(canceled)
		}
	}
	s.leaveGate(served)
	if l := s.ends.Load(); l != nil {
		l.leave()
	}
	if f := s.env.cfg.OnClose; f != nil {
		f(s, cause)
	}
}

// farewellLocked returns what a peer that broke the rules is told before it is
// cut off, or nil.
func (s *Session) farewellLocked(cause error) []byte {
	reason := wire.ReasonViolation
	switch {
	case errors.Is(cause, errFlood):
		reason = wire.ReasonOverload
	case !errors.Is(cause, wire.ErrViolation):
		return nil
	}
	s.env.cfg.Logger.Warn("connection closed", "peer", s.remote(), "reason", cause)
	return wire.AppendGoAway(nil, wire.GoAway{Accepted: s.m.accepted, Reason: reason, Message: cause.Error()})
}

// Limits of a farewell.
const (
	partingTime  = 500 * time.Millisecond
	partingBytes = 1 << 20
)

// part says the last words and closes. What the peer has sent must be read
// until it hangs up: closing with unread bytes resets the connection, and the
// reset would overtake the words.
func (s *Session) part(words []byte) {
	defer s.conn.Close() //nolint:errcheck // its error says nothing that the session's does not
	deadline := time.Now().Add(partingTime)
	if s.conn.SetDeadline(deadline) != nil || !s.awaitWriter(deadline) {
		return
	}
	if _, err := s.conn.Write(words); err != nil {
		return
	}
	if s.conn.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, s.conn, partingBytes)
	}
}

// awaitWriter makes the caller the writer for good; false when the deadline
// passes before. No writer goes on after the session has ended.
func (s *Session) awaitWriter(deadline time.Time) bool {
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	for {
		s.mu.Lock()
		mine := !s.writing
		s.writing = true
		drained := s.drainedLocked()
		s.mu.Unlock()
		if mine {
			return true
		}
		select {
		case <-drained:
		case <-timer.C:
			return false
		}
	}
}

func (s *Session) drainedLocked() chan struct{} {
	if s.drained == nil {
		s.drained = make(chan struct{}, 1)
	}
	return s.drained
}
