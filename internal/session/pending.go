package session

import (
	"context"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/wire"
)

// Pending is a call that this side makes. The caller sets what to send, passes it
// to [Session.Do] or [Session.Open], reads the reply, and releases it.
type Pending struct {
	machine.Call // guarded by the session's mutex until Done delivers

	cancelable bool // the caller's context may end before the deadline

	dones *sync.Pool     // the pool that Done goes back to
	lent  *buffer.Buffer // the memory of Message, given back once that is copied; nil if its owner keeps it

	Deadline time.Time
	Trace    Trace // nil for none

	Reply   []byte // the response's message, valid until Release
	Load    wire.Load
	HasLoad bool
}

// Trace is called for events between the begin and the end of a call, as package httptrace's
// ClientTrace is, in the goroutine that makes the call.
type Trace interface {
	Sent(err error) // the request is queued to be written, or err says why it can't be
	Answered()      // a response has arrived, and is not parsed yet
}

// NewPending returns an empty Pending.
func (e *Env) NewPending() *Pending {
	p, ok := pendings.Get().(*Pending)
	if !ok {
		p = new(Pending)
	}
	p.Enter(e)
	return p
}

// Enter gives p a channel of e's pool. LeaveEnv must follow when the call is over.
func (p *Pending) Enter(e *Env) { p.dones, p.Done = e.dones, e.takeDone() }

// LeaveEnv returns the channel that Enter took to its pool.
func (p *Pending) LeaveEnv() {
	p.dones.Put(p.Done)
	p.dones, p.Done = nil, nil
}

// IsNew reports whether the Pending has not been passed to a session yet.
func (p *Pending) IsNew() bool { return p.State == machine.CallNew }

// Lend passes b, the memory of Message, to the Pending, which gives it back once the message
// is copied. Without Lend the owner keeps the memory, and must not change it until the call
// is over.
func (p *Pending) Lend(b *buffer.Buffer) { p.lent = b }

// Release returns the Pending and its Reply to their pools. Neither may be used afterwards.
func (p *Pending) Release() {
	if p.Clear() {
		p.LeaveEnv()
		pendings.Put(p)
	}
}

// Clear makes p ready for another call; false when a session's queue may still
// hold it.
func (p *Pending) Clear() bool {
	if p.State == machine.CallLeft {
		return false
	}
	p.Forget()
	p.giveBack()
	*p = Pending{Call: machine.Call{Done: p.Done, Metadata: small(p.Metadata)}, dones: p.dones}
	return true
}

// giveBack gives back the memory that was lent.
func (p *Pending) giveBack() {
	if p.lent != nil {
		p.lent.Put()
		p.lent, p.Message = nil, nil
	}
}

// small returns the memory of b, empty, if it is worth keeping.
func small(b []byte) []byte {
	const most = 512
	if cap(b) > most {
		return nil
	}
	return b[:0]
}

// Do makes a unary or one-way call and waits for its response. A one-way call
// returns when its frames are in the queue. The error is an [*tandem.Error]
// that says whether the call may have executed.
func (s *Session) Do(ctx context.Context, p *Pending) error {
	done := ctx.Done()
	p.cancelable = done != nil
	rd, err := s.open(p)
	p.sent(err)
	switch {
	case err != nil:
		return err
	case p.OneWay:
		return nil
	case rd != nil && rd.readFor():
	case done == nil:
		<-p.Done
	default:
		select {
		case <-p.Done:
		case <-done:
			return s.leave(p, ctx.Err())
		}
	}
	return p.result(s)
}

// sent tells the Trace that the request is queued, or why it is not.
func (p *Pending) sent(err *tandem.Error) {
	switch {
	case p.Trace == nil:
	case err == nil:
		p.Trace.Sent(nil)
	default:
		p.Trace.Sent(err)
	}
}

// open sends or queues the request, and writes it unless another goroutine will. If
// it returns a reader, the caller has the turn to read and must call readFor.
func (s *Session) open(p *Pending) (*reader, *tandem.Error) {
	s.mu.Lock()
	now := s.now()
	rd := s.takeTurnLocked(p, now)
	p.Expires = s.instant(p.Deadline)
	err := s.m.Open(&p.Call, now)
	copied := err == nil && p.Copied()
	reads := err == nil && p.mayRead(now)
	s.cancelableRead = s.cancelableRead || rd != nil && p.cancelable
	if rd != nil && !reads {
		rd.endReadingLocked()
	}
	lead := s.leadLocked(now) // also when this call was refused: other frames may be queued
	soon := s.ticksLateLocked(p, rd != nil, now)
	s.mu.Unlock()
	if copied {
		p.giveBack()
	}
	if rd != nil && !reads {
		rd.handToGoroutine()
		rd = nil
	}
	if err == nil {
		s.watch()
	}
	if soon {
		s.env.monitor.wake()
	}
	if lead {
		s.writeAfterOthers()
	}
	return rd, err
}

// ticksLateLocked reports whether the monitor's next look would be too late for p.
func (s *Session) ticksLateLocked(p *Pending, reads bool, now int64) bool {
	return p.Expires != 0 && p.Expires < s.nextTick || reads && p.relieveAt(now) < s.nextTick
}

// mayRead reports whether the caller may read the connection: only if it waits just for
// its response. A caller with a Trace would hold up the responses of others.
func (p *Pending) mayRead(now int64) bool {
	return !p.OneWay && p.Stream == nil && p.Trace == nil && (p.Expires == 0 || p.Expires-now > int64(longestDirect))
}

// result returns the error of a call that is over, and sets its reply.
func (p *Pending) result(s *Session) error {
	if p.Err != nil {
		return p.Err
	}
	if p.Trace != nil {
		p.Trace.Answered()
	}
	return p.parse(s)
}

// leave gives up a call, unless its response came first.
func (s *Session) leave(p *Pending, cause error) error {
	s.mu.Lock()
	if p.State == machine.CallOver {
		s.mu.Unlock()
		<-p.Done
		return p.result(s)
	}
	notExecuted := p.State == machine.CallQueued
	s.m.Leave(&p.Call)
	lead := s.leadLocked(0)
	s.mu.Unlock()
	p.giveBack() // the message is not sent any more, but the queue may hold p for long
	if lead {
		s.write()
	}
	return GivenUp(cause, notExecuted)
}

// GivenUp returns the error of a call whose caller no longer waits for it.
func GivenUp(cause error, notExecuted bool) *tandem.Error { return machine.GivenUp(cause, notExecuted) }

// parse parses the head of the response. It runs in the caller's goroutine, to keep
// the reader's work small.
func (p *Pending) parse(s *Session) error {
	var r wire.Response
	msg, err := p.Parse(&r)
	if err != nil {
		s.fail(err)
		return &tandem.Error{Code: tandem.Internal, Message: "bad response from " + s.remote() + ": " + err.Error()}
	}
	p.Reply, p.Load, p.HasLoad = msg, r.Load, r.HasLoad
	return p.outcome(&r)
}

func (p *Pending) outcome(r *wire.Response) error {
	if len(r.Trailer) > 0 {
		md, err := wire.ParseMetadata(r.Trailer)
		if err != nil {
			return &tandem.Error{Code: tandem.Internal, Message: "bad trailer: " + err.Error()}
		}
		p.Trailer = md
	}
	return machine.StatusError(r.Status)
}
