package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/budget"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

// Session is one connection with its calls in both directions. It is safe for
// concurrent use.
type Session struct {
	// The fields that every call needs come first, here as in the machine: with thousands
	// of connections they are in no cache, and each cache line that a call touches
	// costs a wait for memory.
	env  *Env
	conn *transport.Conn
	peer *tandem.Peer
	mu   sync.Mutex

	// Reading by callers, see direct.go; guarded by mu.
	parked         *reader     // holds the turn that no goroutine has; nil while one reads
	reading        *Pending    // the call whose caller reads; nil if no caller reads
	receiving      *Stream     // the stream whose receiver reads; nil if no receiver reads
	callersRead    bool        // callers may read; never changes after Connect
	relieved       bool        // the caller or receiver that reads must hand over its turn
	cancelableRead bool        // since the last tick, a caller that can be canceled took the turn
	dropWatch      bool        // used by the monitor only: the session may leave its list
	watched        atomic.Bool // the session is on the monitor's list

	clock                 // a copy of the Env's
	received atomic.Int64 // ns; when bytes last arrived
	nextTick int64        // ns; latest time of the monitor's next tick; guarded by mu

	// Reading.
	turn    atomic.Uint64 // see reader
	running *method       // the method that the reader executes; valid while turn is odd
	current *reader       // the reader that executes running; valid while turn is odd

	// Writing; guarded by mu.
	writing   bool // a goroutine is the writer
	yielding  bool // the writer lets other goroutines run first
	reserved  bool // a goroutine that will write is about to run
	yieldGain yieldScore
	yields    uint64 // number of the current yield
	overdue   int64  // ns; after it a caller writes in place of a goroutine that yields or is reserved
	written   uint64 // bytes that reached the connection
	offered   uint64 // bytes that may have reached the connection: a write may be in progress
	turns     uint64 // times a stream receiver took over reading

	// Guarded by mu; here, as a call of the peer needs them together with the machine.
	methods      []*method   // the methods that the peer has given numbers, by number
	firstMethod  [1]*method  // the memory of methods while that has one element
	unnumbered   *method     // the last method that was found without a number
	inbounds     []*Inbound  // the peer's calls that arrive or run, by slot; nil for none
	firstInbound [1]*Inbound // the memory of inbounds while that has one element

	m machine.Machine // guarded by mu

	base    context.Context         // base of the handlers' contexts
	ends    atomic.Pointer[lasting] // see lasting
	drained chan struct{}           // signals room in the write buffer; nil until a goroutine waits for it

	// Calls in goroutines of their own, see room.go; guarded by mu.
	encoded  int             // bytes of encoded responses that are not queued yet
	room     chan struct{}   // holds a token when there is room again; nil until a goroutine waits
	account  *budget.Account // account of the memory of large requests; nil for no limit
	encoding int32           // number of calls that are encoding their response
	starting atomic.Int32    // number of calls whose goroutine has not begun to run; not guarded by mu

	// Used by the reader only.
	backlog overload.Backlog
	caller  uint64            // hash of the caller, for the gate's queue; 0 until callerOf sets it
	request *overload.Request // reused for the next request to the gate; nil for none
	status  []byte            // reused for the status of calls that the gate refuses

	// Used by the monitor only, except rtt.
	rtt        atomic.Int64
	seenTurn   uint64
	held       int // rises while the reader executes the same handler; see checkTurn
	detector   silenceDetector
	lastRTT    int64  // ns; when the round trip was last measured
	seen       uint64 // frames received at the last look
	readBy     uint64 // ordinal of the call whose caller read at the last tick; 0 for none
	sent       uint64 // number of requests and receivers' turns until the last tick
	quietSince int64  // ns; since when there has been nothing to watch; 0 while there is something

	onSuspicion func(bool) // see OnSuspicion
	reported    bool       // last argument of onSuspicion; guarded by mu, as is onSuspicion

	quiet  chan struct{} // signals that no handler runs any more; nil before Drain
	onAway func()        // called when no more calls may be made; nil if not set, or already called
	once   sync.Once
	done   chan struct{}
	err    error // valid when done is closed

	oneWays []*Inbound // the peer's one-way calls that run, which no frame names; guarded by mu
}

func (e *Env) newSession(ctx context.Context, c net.Conn) *Session {
	s := &Session{
		env: e, clock: e.clock, conn: transport.Wrap(c), base: ctx, done: make(chan struct{}),
	}
	s.peer = &tandem.Peer{Addr: c.RemoteAddr(), LocalAddr: c.LocalAddr(), Protocol: "tandem"}
	s.account = e.cfg.Memory.Account()
	s.m.Config = machine.Config{
		Own: &e.cfg.Settings, Remote: s.peer.Addr, Names: (*lookup)(s), Stall: e.cfg.Stall, Reserves: s.account != nil,
	}
	s.detector.silence = e.cfg.Silence
	s.received.Store(s.now())
	return s
}

func (s *Session) remote() string { return machine.AddrName(s.peer.Addr) }

// Peer describes the other end; it must not be changed.
func (s *Session) Peer() *tandem.Peer { return s.peer }

// Env returns the Env that the session belongs to.
func (s *Session) Env() *Env { return s.env }

// Settings returns the peer's settings: what it accepts.
func (s *Session) Settings() wire.Settings { return *s.m.PeerSettings() }

// RTT returns the last measured round-trip time, 0 before the first.
func (s *Session) RTT() time.Duration { return time.Duration(s.rtt.Load()) }

// Done is closed when the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Accepted returns how many requests of the peer have arrived, without those that
// arrived after Drain.
func (s *Session) Accepted() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.Accepted()
}

// Err returns why the session ended, or nil while it has not.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// lasting is a context that ends with the session. The first call that needs it makes
// it: most sessions never do.
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

// OnAway registers f to be called once, when no more calls may be made: the peer drains, Retire
// was called, or the session has ended. If that is so already, f is called at once. f must
// neither block nor use the session. It replaces an f that has not been called yet.
func (s *Session) OnAway(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onAway = f
	if !s.m.TakesCalls() {
		s.notifyAwayLocked()
	}
}

// TakesCalls reports whether calls may be made.
func (s *Session) TakesCalls() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.TakesCalls()
}

func (s *Session) notifyAwayLocked() {
	if f := s.onAway; f != nil {
		s.onAway = nil
		f()
	}
}

// ErrDraining is in the chain of the error of a call that was not executed
// because the peer drains or the connection has ended: it is safe to retry at
// another instance.
var ErrDraining = machine.ErrDraining

// Retire refuses new calls of this side and closes the session when the last one is answered.
func (s *Session) Retire() {
	s.mu.Lock()
	if s.m.Retire() {
		s.notifyAwayLocked()
	}
	s.mu.Unlock()
	s.leaveIfAway()
}

// Outstanding returns how many calls of this side are open or queued, and how many
// calls of the peer are running.
func (s *Session) Outstanding() (ours, theirs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.m.OpenCalls() + s.m.QueuedCalls(), s.m.Running()
}

// ErrClosed is the cause of the end of a session that its owner closed or that drained.
var ErrClosed = errors.New("closed")

// Close ends the session at once. Calls in flight fail.
func (s *Session) Close() { s.fail(ErrClosed) }

// Drain tells the peer that no more calls are accepted, waits until the running
// calls are answered and the peer has closed the connection, and closes it. When
// ctx ends first it closes at once and returns ctx's error.
func (s *Session) Drain(ctx context.Context, reason string) error {
	s.mu.Lock()
	s.m.Drain(reason)
	if s.quiet == nil {
		s.quiet = make(chan struct{}, 1)
	}
	idle, quiet := s.m.Running() == 0, s.quiet
	s.mu.Unlock()
	s.flush()
	defer s.Close()
	if !idle {
		select {
		case <-quiet:
			machine.Signal(quiet) // for another Drain that waits
		case <-s.done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return s.linger(ctx)
}

// linger waits for the peer to close the connection, which it does when it has the
// last responses: closing with unread bytes would reset the connection and lose
// responses in transit. If the peer does not close, linger checks every drainLinger
// and returns once every request is answered and nothing is left to write.
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

// allAnswered reports whether every accepted request is answered, those that were
// still arriving included, and nothing is left to write.
func (s *Session) allAnswered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allAnsweredLocked()
}

func (s *Session) allAnsweredLocked() bool {
	return !s.writing && s.m.AllAnswered()
}

// leaveIfAway ends a session on which no more calls may be made, once no call in
// either direction is open.
func (s *Session) leaveIfAway() {
	s.mu.Lock()
	over := s.m.Away() != nil && s.m.OpenCalls() == 0 && s.m.QueuedCalls() == 0 && s.allAnsweredLocked()
	reason := ""
	if over {
		reason = s.m.Away().Message
	}
	s.mu.Unlock()
	if over {
		s.fail(fmt.Errorf("%w: no more calls are accepted: %s", ErrClosed, reason))
	}
}

// fail ends the session: calls in flight fail with cause. Only the first call has an effect.
func (s *Session) fail(cause error) {
	s.once.Do(func() { s.end(cause) })
}

func (s *Session) end(cause error) {
	s.err = cause
	text := fmt.Sprintf("connection to %s ended: %v", s.remote(), cause)
	s.mu.Lock()
	words := s.farewellLocked(cause)
	over := s.m.End(cause, s.offered, text)
	s.endGoneLocked()
	served := slices.Clone(s.inbounds) // its memory may be firstInbound
	s.inbounds, s.oneWays = nil, nil
	for _, in := range served {
		if in != nil && in.IsArriving() { // it won't run
			in.hold.Release()
		}
	}
	machine.Signal(s.drained)
	away := s.onAway
	s.onAway = nil
	s.mu.Unlock()
	if words == nil || !s.env.Spawn(func() { s.sendFarewell(words) }) {
		_ = s.conn.Close() // its error says nothing that cause does not
	}
	close(s.done) // first: a caller whose call has failed checks whether the session has ended
	if away != nil {
		away()
	}
	for _, p := range over {
		p.Done <- struct{}{}
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

// farewellLocked returns the goaway frame for a peer that violated the protocol or
// flooded, and logs that; nil for other causes.
func (s *Session) farewellLocked(cause error) []byte {
	reason := wire.ReasonViolation
	switch {
	case errors.Is(cause, machine.ErrFlood):
		reason = wire.ReasonOverload
	case !errors.Is(cause, wire.ErrViolation):
		return nil
	}
	s.env.cfg.Logger.Warn("connection closed", "peer", s.remote(), "reason", cause)
	return wire.AppendGoAway(nil, wire.GoAway{Accepted: s.m.Accepted(), Reason: reason, Message: cause.Error()})
}

// Limits of sendFarewell.
const (
	farewellTime  = 500 * time.Millisecond
	farewellBytes = 1 << 20
)

// sendFarewell writes the last frame and closes the connection. Before it closes, it reads
// what the peer has sent, at most farewellBytes: closing with unread bytes resets the
// connection, and the reset would overtake the frame.
func (s *Session) sendFarewell(words []byte) {
	defer s.conn.Close() //nolint:errcheck // its error says nothing that the session's does not
	deadline := time.Now().Add(farewellTime)
	if s.conn.SetDeadline(deadline) != nil || !s.awaitWriter(deadline) {
		return
	}
	if _, err := s.conn.Write(words); err != nil {
		return
	}
	if s.conn.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, s.conn, farewellBytes)
	}
}

// awaitWriter makes the calling goroutine the last writer; it returns false if the deadline
// passes first. The session has ended, so other writers stop after their current write.
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
