package session

import (
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/wire"
)

// Calls that have a goroutine of their own pass the server's gate. While the gate guards, all
// unary calls do: readers only parse requests, which wait in one queue for all connections.
// Streams have a limit of their own, as their handlers mostly wait.

// guarding reports whether calls that a reader could run pass the gate too.
func (e *Env) guarding() bool { return e.cfg.Gate != nil && e.cfg.Gate.Guarding() }

// sawEvery is the number of requests of which one reports its caller's timeout to the gate.
const sawEvery = 64

func (s *Session) sawTimeoutLocked(in *Inbound) {
	if s.env.cfg.Gate != nil && in.Expires != 0 && s.m.Accepted()%sawEvery == 1 {
		s.env.cfg.Gate.Saw(time.Duration(in.Expires - in.Arrived))
	}
}

// requestOverhead is how many bytes a waiting request takes beside its message.
const requestOverhead = 600

// admit asks the gate whether a call may begin. A call that waits begins later; one that is refused
// has been answered.
func (s *Session) admit(in *Inbound) overload.Verdict {
	gate, m := s.env.cfg.Gate, in.method.target.load
	switch {
	case gate == nil, m == nil && in.stream == nil:
		return overload.Run
	case in.stream != nil:
		return s.admitStream(in)
	case gate.Admit(m):
		return overload.Run
	}
	r := s.request
	if s.request = nil; r == nil {
		r = new(overload.Request)
	}
	*r = overload.Request{
		Method: m, Caller: s.callerOf(), Class: s.env.classOf(&in.call), Bytes: int64(len(in.Message) + requestOverhead), OneWay: in.OneWay,
		Deadline: s.instant(in.call.Deadline), Owner: in,
	}
	s.mu.Lock()
	in.waits = r
	s.mu.Unlock()
	verdict, retryAfter := gate.Ask(r, s.now())
	if verdict == overload.Refuse {
		s.request = r
		s.refuseAtOnce(in, retryAfter)
	}
	return verdict
}

// refuseAtOnce answers a call that did not wait. An overloaded server refuses many calls, so
// this allocates nothing: only the reader refers to the call, so its memory can be reused.
func (s *Session) refuseAtOnce(in *Inbound, retryAfter time.Duration) {
	in.release()
	s.status = wire.AppendStatus(s.status[:0], &wire.Status{
		Code: tandem.ResourceExhausted, NotExecuted: true, Message: in.method.target.overloaded, RetryAfter: retryAfter,
	})
	a := answer{in: in, unseen: true}
	a.r.Status = s.status
	s.answer(&a)
}

// admitStream is admit for a stream, which does not wait.
func (s *Session) admitStream(in *Inbound) overload.Verdict {
	if s.env.cfg.Gate.BeginStream() {
		return overload.Run
	}
	e := refused(tandem.ResourceExhausted, "the server is overloaded: no more streams may run, so %s did not begin", in.call.Method)
	e.RetryAfter = s.env.cfg.Gate.LongestPause()
	s.refuseRun(in, e)
	return overload.Refuse
}

// callerOf returns the hash by which the gate's queue tells callers apart. Only the reader may
// call it.
func (s *Session) callerOf() uint64 {
	if s.caller == 0 && s.env.cfg.Caller != nil {
		s.caller = s.env.cfg.Caller(s.peer)
	}
	return s.caller
}

func (e *Env) classOf(call *tandem.Call) overload.Class {
	if e.cfg.Class == nil {
		return overload.Normal
	}
	return e.cfg.Class(call)
}

// Admitted starts a call that has waited in the gate's queue.
func (in *Inbound) Admitted() {
	in.s.startApart(in)
}

// Refused answers a call that has waited in the gate's queue and is not admitted.
func (in *Inbound) Refused(retryAfter time.Duration) {
	in.s.env.Spawn(func() {
		in.s.refuseRun(in, &tandem.Error{
			Code: tandem.ResourceExhausted, NotExecuted: true, Message: in.method.target.overloaded, RetryAfter: retryAfter,
		})
		in.s.flush()
	})
}

// leaveGateLocked ends a call whose caller has gone, if it waits in the gate's queue. A call
// that the gate admits at the same moment ends when it starts: see abandonedError.
func (in *Inbound) leaveGateLocked() {
	if in.waits == nil || !in.s.env.cfg.Gate.Leave(in.waits) {
		return
	}
	in.s.env.Spawn(func() {
		in.s.refuseRun(in, tandem.AsError(in.abandonedError()))
		in.s.flush()
	})
}

// leaveGate removes the calls of a session that has ended from the gate's queue.
func (s *Session) leaveGate(served []*Inbound) {
	if s.env.cfg.Gate == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range served {
		if in != nil {
			in.leaveGateLocked()
		}
	}
}

// abandonedError returns an error for a call that has waited and whose caller has gone meanwhile.
func (in *Inbound) abandonedError() error {
	if in.waits == nil || in.Err() == nil {
		return nil
	}
	e := tandem.AsError(in.Err())
	e.NotExecuted = true
	return e
}

// admission is a call that the gate counts as running.
type admission struct {
	overload.Handled

	gate   *overload.Gate
	stream bool
	left   bool // leave was called
	clock  clock
}

// leave records what the call knows: once it is answered, its Inbound may be reused.
func (a *admission) leave(in *Inbound) {
	if !a.left {
		a.left = true
		a.Parked = in.slot.End()
		a.Waited(in.waited)
	}
}

// admitted returns the admission of a call, to be ended by done. It does not refer to the Inbound,
// which may be reused once the call is answered.
func (s *Session) admitted(in *Inbound, began time.Time) admission {
	switch gate := s.env.cfg.Gate; {
	case gate == nil, in.method.target.load == nil && in.stream == nil:
		return admission{}
	case in.stream != nil:
		return admission{gate: gate, stream: true}
	}
	h := in.method.target.load.Begin(in.waits, s.instant(began), s.instant(in.call.Deadline))
	return admission{Handled: h, gate: s.env.cfg.Gate, clock: s.clock}
}

// done reports the end of the call to the gate, and starts the calls that the gate admits then.
func (a *admission) done() {
	switch {
	case a.gate == nil:
	case a.stream:
		a.gate.EndStream()
	default:
		a.gate.Done(&a.Handled, a.clock.now()).Tell()
	}
}
