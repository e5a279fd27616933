package session

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/wire"
)

// Pending is a call that this side makes. The caller says what to send, gives it
// to [Session.Do] or [Session.Open], reads what came, and releases it.
type Pending struct {
	// What the session works on; guarded by its mutex until done delivers. It
	// comes first to be in one cache line: it is written by one processor and
	// read by another.
	state  pendingState
	codec  uint8 // numbers of what the call uses, as the peer counts them
	packer uint8
	// ReplyCompressed says that the answer's message is.
	ReplyCompressed bool
	cancelable      bool // the caller's context may end before the deadline
	UsualDeadline   bool // the deadline is the client's default, see call.Outgoing

	stream  *Stream
	rest    *bulk // what is still to be sent of the request
	answer  *assembly
	payload *buffer.Buffer // the answer: head and message
	done    chan struct{}  // holds a token once state is callDone
	err     *tandem.Error  // set when the session ended the call

	id       wire.Stream
	deadline int64
	ordinal  uint64 // of the request on this connection, from 1
	end      uint64 // where the request's last byte lies in what we write
	body     int    // where the message starts in a reassembled answer
	doubted  int64  // since when it has waited at a suspect peer; 0 if it has not

	Movable *tandem.Call // the attempt, if another would follow elsewhere; else nil: see call.Outgoing.MayMove

	dones *sync.Pool     // where done belongs
	lent  *buffer.Buffer // Message's memory, given back once that is copied; nil if it stays whose it is

	Method     string
	Codec      string
	Compressor string // of this call, both ways; "" for none
	Message    []byte // encoded, and compressed if Compressed
	Compressed bool
	OneWay     bool
	Metadata   []byte // encoded
	Attempt    int
	Deadline   time.Time
	Trace      Trace // nil for none

	Reply   []byte // the answer's message, valid until Release
	Trailer tandem.Metadata
	Load    wire.Load
	HasLoad bool
}

// Trace is told what happens to a call between its begin and its end. The goroutine that
// makes the call calls it.
type Trace interface {
	Sent(err error) // the request is in the queue to be written, or can't be
	Answered()      // there is an answer, which has not been looked at
}

type pendingState uint8

const (
	callNew pendingState = iota
	callQueued
	callOpen
	callDone
	callLeft // the caller has gone
)

// NewPending returns an empty Pending.
func (e *Env) NewPending() *Pending {
	p, ok := pendings.Get().(*Pending)
	if !ok {
		p = new(Pending)
	}
	p.Enter(e)
	return p
}

// Enter makes p one of the Env, which it leaves when it is over.
func (p *Pending) Enter(e *Env) { p.dones, p.done = e.dones, e.takeDone() }

// LeaveEnv ends what Enter began.
func (p *Pending) LeaveEnv() {
	p.dones.Put(p.done)
	p.dones, p.done = nil, nil
}

// IsNew reports whether no session has had the Pending.
func (p *Pending) IsNew() bool { return p.state == callNew }

// Lend gives the Pending the memory of its message, to be given back once the message is
// copied. Else the memory stays its owner's, who must leave it alone until the call is over.
func (p *Pending) Lend(b *buffer.Buffer) { p.lent = b }

// Release gives the Pending and its Reply back. It must not be used any more.
func (p *Pending) Release() {
	if p.Clear() {
		p.LeaveEnv()
		pendings.Put(p)
	}
}

// Clear makes p ready for another call; false when a session's queue may still
// hold it.
func (p *Pending) Clear() bool {
	if p.state == callLeft {
		return false
	}
	p.payload.Put()
	p.giveBack()
	*p = Pending{dones: p.dones, done: p.done, Metadata: small(p.Metadata)}
	return true
}

// copiedLocked reports whether the whole message is in the write buffer.
func (p *Pending) copiedLocked() bool { return p.state != callQueued && p.rest == nil }

// giveBack gives back what was lent.
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

// Do makes a unary or one-way call and waits for its answer. A one-way call
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
		<-p.done
	default:
		select {
		case <-p.done:
		case <-done:
			return s.leave(p, ctx.Err())
		}
	}
	return p.result(s)
}

// sent tells that the request is on its way, or why it is not.
func (p *Pending) sent(err *tandem.Error) {
	switch {
	case p.Trace == nil:
	case err == nil:
		p.Trace.Sent(nil)
	default:
		p.Trace.Sent(err)
	}
}

// open queues or sends the request and sees to it that it gets written. The
// caller must read if it gets a reader.
func (s *Session) open(p *Pending) (*reader, *tandem.Error) {
	s.mu.Lock()
	now := s.now()
	rd := s.takeTurnLocked(p, now)
	err := s.m.open(p, now)
	copied := err == nil && p.copiedLocked()
	reads := err == nil && p.mayRead(now)
	s.hasty = s.hasty || rd != nil && p.cancelable
	if rd != nil && !reads {
		rd.resignLocked()
	}
	lead := s.leadLocked(now) // also when this call was refused: others may have left something
	soon := s.ticksLateLocked(p, rd != nil, now)
	s.mu.Unlock()
	if copied {
		p.giveBack()
	}
	if rd != nil && !reads {
		rd.goOn()
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
	return p.deadline != 0 && p.deadline < s.nextTick || reads && p.relieveAt(now) < s.nextTick
}

// mayRead reports whether the caller waits for nothing but its answer: who has
// plugins to tell meanwhile would hold up the answers of others.
func (p *Pending) mayRead(now int64) bool {
	return !p.OneWay && p.stream == nil && p.Trace == nil && (p.deadline == 0 || p.deadline-now > int64(longestDirect))
}

// result is for the caller of a call that is over.
func (p *Pending) result(s *Session) error {
	if p.err != nil {
		return p.err
	}
	if p.Trace != nil {
		p.Trace.Answered()
	}
	return p.parse(s)
}

// leave gives a call up, unless the answer came first.
func (s *Session) leave(p *Pending, cause error) error {
	s.mu.Lock()
	if p.state == callDone {
		s.mu.Unlock()
		<-p.done
		return p.result(s)
	}
	notExecuted := p.state == callQueued
	s.m.leave(p)
	lead := s.leadLocked(0)
	s.mu.Unlock()
	p.giveBack() // nobody sends it any more, but the queue may hold p for long
	if lead {
		s.write()
	}
	return GivenUp(cause, notExecuted)
}

// GivenUp is the error of a call whose caller no longer waits for it.
func GivenUp(cause error, notExecuted bool) *tandem.Error {
	code, text := tandem.Canceled, "call canceled by the caller"
	if errors.Is(cause, context.DeadlineExceeded) {
		code, text = tandem.DeadlineExceeded, "no answer within the deadline"
	}
	if notExecuted {
		text += "; it was never sent"
	}
	return &tandem.Error{Code: code, Message: text, NotExecuted: notExecuted}
}

// parse reads the head of the answer in the caller's goroutine, so that the
// reader stays thin.
func (p *Pending) parse(s *Session) error {
	var r wire.Response
	payload := p.payload.Whole()
	msg, err := wire.ParseResponse(payload, &r)
	if err != nil {
		s.fail(err)
		return &tandem.Error{Code: tandem.Internal, Message: "bad answer from " + s.remote() + ": " + err.Error()}
	}
	if p.body > 0 {
		msg = payload[p.body:]
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
	return statusError(r.Status)
}

// statusError returns the error that an encoded status stands for, nil for OK.
func statusError(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	st, err := wire.ParseStatus(b)
	if err != nil {
		return &tandem.Error{Code: tandem.Internal, Message: "bad status: " + err.Error()}
	}
	if st.Code == tandem.OK {
		return nil
	}
	return &tandem.Error{
		Code: st.Code, Message: st.Message, Details: st.Details, Remote: true, NotExecuted: st.NotExecuted, RetryAfter: st.RetryAfter,
	}
}

// complete marks p done; the caller of the machine then wakes it.
func (p *Pending) complete(err *tandem.Error) {
	p.state, p.err, p.rest, p.answer = callDone, err, nil, nil
}

// notSent says that the end of a request is not in the write buffer yet.
const notSent = math.MaxUint64
