package session

import (
	"errors"
	"math"
	"time"

	"github.com/tandem-rpc/tandem/internal/machine"
)

// A call that is alone on its connection would cost two hand-overs between its
// caller and the reader's goroutine, and on an idle machine the wake of another
// processor. On a client's connection its caller reads instead: when calls come
// one at a time the reader parks its turn and ends, and the goroutine that makes
// the next call takes the turn. A receiver of the only stream of a connection does
// the same between two messages.
//
// The monitor bounds this. A caller that can be canceled and reads for longer than
// a tick is relieved: a goroutine reads on, and the call waits like any other, so
// that it ends when its context does. So is a caller whose deadline is near. If no
// call is made for a tick, a goroutine reads again, so that the end of the
// connection is noticed.

const (
	parkAfter     = 3                // batches in a row with one response each, after which the reader parks its turn
	staleAfter    = time.Millisecond // time since the last read after which the peer may have closed the connection
	longestDirect = 4 * slowTick     // callers with less time left do not read, so that their deadlines are precise
)

// errRelieved is returned to a caller that must stop reading.
var errRelieved = errors.New("relieved")

// parkUnlock parks the turn of a goroutine that has read, parkAfter times in a
// row, for one caller or the only stream. If it parks the turn, it unlocks the
// session and returns true.
func (rd *reader) parkUnlock() bool {
	s := rd.s
	if !rd.servedOneLocked() || !rd.canParkLocked() {
		rd.loneBatches = 0
		return false
	}
	if rd.loneBatches++; rd.loneBatches < parkAfter {
		return false
	}
	var p *machine.Call
	if len(rd.woken) > 0 {
		p = rd.woken[0]
	}
	rd.woken = rd.woken[:0]
	rd.parkLocked()
	s.mu.Unlock()
	if p != nil {
		p.Done <- struct{}{}
	}
	return true
}

// parkLocked parks the turn. The reader must not be used after the session is
// unlocked. A receiver of the only stream that waits already takes the turn.
func (rd *reader) parkLocked() {
	if rd.r == rd.w {
		rd.release()
	}
	rd.s.parked = rd
	if st := rd.s.m.OnlyStream(); st != nil {
		machine.Signal(st.CanRecv)
	}
}

// servedOneLocked reports whether this batch was for one caller or receiver.
func (rd *reader) servedOneLocked() bool {
	if rd.s.m.OnlyStream() != nil {
		return len(rd.woken) < 2
	}
	return len(rd.woken) == 1
}

// receiveUnlock reads until there is something to receive, if the turn is parked.
// The session's mutex is held, and unlocked when it returns true.
func (st *Stream) receiveUnlock() bool {
	s := st.s
	rd := s.parked
	if rd == nil || s.m.OnlyStream() != &st.m {
		return false
	}
	s.parked, s.receiving, rd.stream = nil, st, st
	s.turns++
	s.mu.Unlock()
	rd.readFor()
	return true
}

// resume starts a goroutine that reads, if the turn is parked.
func (s *Session) resume() {
	s.mu.Lock()
	rd := s.parked
	s.parked = nil
	s.mu.Unlock()
	if rd != nil {
		rd.handToGoroutine()
	}
}

// relieveLocked makes the caller or receiver that reads hand over the turn.
func (s *Session) relieveLocked() {
	s.relieved = true
	_ = s.conn.SetReadDeadline(time.Unix(1, 0)) // fails when the connection is closed, which ends the read too
}

// answeredUnlock ends the turn of a caller or receiver that has what it waited for.
// It parks the turn, or gives it to a goroutine when others wait for responses, and
// unlocks the session.
func (rd *reader) answeredUnlock() {
	s := rd.s
	rd.endReadingLocked()
	if len(rd.woken) == 0 && rd.canParkLocked() {
		rd.parkLocked()
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	rd.handToGoroutine() // which wakes the others
}

// canParkLocked reports whether the turn can be parked: nothing is in flight that
// needs a reader. A part of a frame may be left in the buffer only for a receiver,
// which will read on.
func (rd *reader) canParkLocked() bool {
	m := &rd.s.m
	switch {
	case m.HasOutput() || m.Away() != nil || m.Closed():
		return false
	case m.OnlyStream() != nil:
		return m.Arriving() == 0 && rd.clearDeadlineLocked()
	}
	return !rd.s.busyLocked() && rd.r == rd.w && rd.clearDeadlineLocked()
}

// clearDeadlineLocked removes a read deadline that no longer applies: that of a frame that is
// complete, or of a caller that was relieved. It reports whether no deadline is left.
func (rd *reader) clearDeadlineLocked() bool {
	if !rd.armed && !rd.s.relieved {
		return true
	}
	rd.armed, rd.s.relieved = false, false
	return rd.s.conn.SetReadDeadline(time.Time{}) == nil
}

// handToGoroutine starts a goroutine that wakes the callers whose responses arrived, and reads.
func (rd *reader) handToGoroutine() {
	rd.loneBatches = 0
	if !rd.s.env.Spawn(rd.loop) {
		rd.wake()
	}
}

// takeTurnLocked takes the parked turn for the caller of p; nil if there is none.
// If the last read is older than staleAfter, it polls the connection first: the
// peer may have closed it, and then the call must not be sent.
func (s *Session) takeTurnLocked(p *Pending, now int64) *reader {
	rd := s.parked
	if rd == nil {
		return nil
	}
	s.parked = nil
	if rd.r < rd.w { // part of a stream's message is in the buffer
		rd.handToGoroutine()
		return nil
	}
	s.reading, rd.caller = p, &p.Call
	if now-s.received.Load() > int64(staleAfter) {
		s.mu.Unlock()
		rd.poll()
		s.mu.Lock()
	}
	return rd
}

// poll handles what has arrived already, without waiting.
func (rd *reader) poll() {
	s := rd.s
	_, n, err := s.conn.TryRead(rd)
	switch {
	case err != nil:
		err = rd.readError(err)
	case n > 0:
		rd.r, rd.w = 0, 0
		rd.took(n)
		rd.now = s.now()
		s.received.Store(rd.now)
		_, err = rd.process()
		s.flush()
		s.leaveIfAway()
	}
	if err != nil && !errors.Is(err, errRelieved) {
		s.fail(err)
	}
}

// endReadingLocked ends the reading of a caller or receiver.
func (rd *reader) endReadingLocked() {
	rd.caller, rd.got, rd.stream = nil, false, nil
	rd.s.reading, rd.s.receiving = nil, nil
}

func (rd *reader) endReading() {
	rd.s.mu.Lock()
	rd.endReadingLocked()
	rd.s.mu.Unlock()
}

// readFor reads until the caller's response has arrived. It returns false if another
// goroutine reads on or the call has ended otherwise: then the caller waits for done.
func (rd *reader) readFor() bool {
	s := rd.s
	for {
		state, err := kept, rd.fill()
		if err == nil {
			state, err = rd.process()
		}
		switch {
		case state == parked:
			return true
		case errors.Is(err, errRelieved):
			rd.endReading()
			rd.handToGoroutine()
			return false
		case err != nil:
			s.fail(err)
			fallthrough
		case state == lost:
			got := rd.got // the response may have arrived before the session ended
			rd.endReading()
			rd.release()
			return got
		case rd.endedUnanswered():
			rd.handToGoroutine()
			return false
		}
		s.flush()
		s.leaveIfAway()
		s.backOff()
	}
}

// endedUnanswered reports whether the call of the caller that reads has ended without a
// response, as when the peer drains and has not accepted it, and ends its reading then.
func (rd *reader) endedUnanswered() bool {
	rd.s.mu.Lock()
	defer rd.s.mu.Unlock()
	over := rd.caller != nil && rd.caller.State == machine.CallOver
	if over {
		rd.endReadingLocked()
	}
	return over
}

// relieveAt returns when the caller of p must stop reading.
func (p *Pending) relieveAt(now int64) int64 {
	switch {
	case p.cancelable:
		return now + int64(slowTick)
	case p.Expires != 0:
		return p.Expires - int64(longestDirect)
	}
	return math.MaxInt64
}

// checkReadingCallerLocked is called at each tick. It relieves a caller that has read for too
// long. It returns the reader if it has been parked since the last tick: a goroutine must read on.
func (s *Session) checkReadingCallerLocked(now int64) (resume *reader) {
	before, sent := s.readBy, s.sent
	s.readBy, s.sent = 0, s.m.Sent()+s.turns
	switch {
	case s.reading != nil:
		s.readBy = s.reading.Ordinal
		again := before != 0 && s.readBy == before
		if again && s.reading.cancelable || now >= s.reading.relieveAt(now) {
			s.relieveLocked()
		}
	case s.parked != nil && s.m.Sent()+s.turns == sent:
		resume, s.parked = s.parked, nil
	}
	return resume
}

// endRelief reports whether the read deadline was set by relieveLocked, and removes it.
func (s *Session) endRelief() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.relieved || s.m.Closed() {
		return false
	}
	s.relieved = false
	return s.conn.SetReadDeadline(time.Time{}) == nil
}
