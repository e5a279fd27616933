package session

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/internal/machine"
)

// leadLocked makes the calling goroutine the writer if there is something to write
// and no goroutine writes or is about to. It takes over from a writer that yields or
// is reserved when enough is queued or that writer is overdue. now is
// the current time, or 0 to skip the latter check. On true, the caller must unlock
// and call write.
func (s *Session) leadLocked(now int64) bool {
	switch {
	case !s.m.HasOutput() || s.m.Closed():
		return false
	case s.writing && !s.yielding:
		return false
	case (s.writing || s.reserved) && s.m.QueuedBytes() < enoughToWrite && now <= s.overdue:
		return false
	}
	s.writing, s.yielding = true, false
	return true
}

// enoughToWrite is how many bytes one write should carry: the peer idles while more are gathered.
const enoughToWrite = 16 << 10

// reserveLocked leaves writing to a goroutine that is about to start, behind n
// callers that are about to be woken: most of them will make their next call,
// and one write should carry all of those. On true, the caller must start
// writeReserved.
func (s *Session) reserveLocked(n int, now int64) bool {
	if n < 2 || s.reserved || s.m.HasOutput() || s.m.Closed() {
		return false
	}
	s.reserved, s.overdue = true, now+int64(longestYield)
	return true
}

// longestYield is how long a reserved writer waits for the woken callers before
// another caller takes over: they may work for long before they call again. It is
// longer than a processor takes from one woken caller to the next, even when the
// system interrupts it meanwhile.
const longestYield = 2 * time.Millisecond

// writeReserved writes the requests of the callers that have run meanwhile.
func (s *Session) writeReserved() {
	s.mu.Lock()
	s.reserved = false
	s.mu.Unlock()
	s.flush()
}

// flush writes what is queued, unless another goroutine writes or is about to.
func (s *Session) flush() {
	s.mu.Lock()
	lead := s.leadLocked(0)
	s.mu.Unlock()
	if lead {
		s.write()
	}
}

// yieldScore records whether a yield before a write has made the write larger. With
// concurrent calls, such yields halve the CPU use; with no CPU left, yields only add
// latency.
type yieldScore struct {
	score int8
	skip  uint16
}

const yieldPause = 256 // writes without a yield, after too many yields without gain

func (y *yieldScore) worth(open int) bool {
	if open < 2 {
		return false
	}
	if y.skip > 0 {
		y.skip--
		return false
	}
	return true
}

func (y *yieldScore) learn(gained bool) {
	if gained {
		y.score = min(y.score+4, 8) // a write costs much more than a yield
		return
	}
	if y.score--; y.score < -4 {
		y.score, y.skip = 0, yieldPause
	}
}

// write writes until nothing is left, without waiting for the peer: a goroutine writes
// what the connection does not take at once. After maxRounds it hands over too, so that
// no caller writes for others without end.
func (s *Session) write() { s.writeRounds(false) }

// writeAfterOthers is write for a caller: before each round it yields, so that other
// callers can add their requests, as long as that makes writes larger.
func (s *Session) writeAfterOthers() { s.writeRounds(true) }

func (s *Session) writeRounds(yield bool) {
	for round, n := 0, 0; ; round++ {
		b := s.next(n, yield)
		if b == nil {
			return
		}
		if round == maxRounds || !s.conn.CanTry() {
			s.env.Spawn(func() { s.writeRest(b, b.B) })
			return
		}
		var err error
		if n, err = s.conn.TryWrite(b.B); err != nil {
			s.wrote(n)
			s.fail(err)
			return
		}
		if n < len(b.B) {
			s.wrote(n)
			s.env.Spawn(func() { s.writeRest(b, b.B[n:]) })
			return
		}
		b.Put()
	}
}

const maxRounds = 8

// next counts the bytes written and returns the buffer to write next. If it returns
// nil, the calling goroutine is no longer the writer.
func (s *Session) next(written int, yield bool) *buffer.Buffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wroteLocked(written)
	if yield && s.m.HasOutput() && s.m.QueuedBytes() < enoughToWrite {
		switch {
		case s.reserved && written > 0: // the reserved goroutine writes the rest
			s.stopWritingLocked()
			return nil
		case !s.reserved && s.yieldGain.worth(s.m.OpenCalls()) && !s.yieldLocked():
			return nil
		}
	}
	b := s.takeLocked()
	if b == nil || s.m.Closed() {
		s.stopWritingLocked()
		return nil
	}
	s.offered = s.m.Taken()
	return b
}

// takeLocked takes the buffer to write next, and signals goroutines that wait until
// less is queued.
func (s *Session) takeLocked() *buffer.Buffer {
	b := s.m.Take()
	s.signalRoomLocked()
	machine.Signal(s.drained)
	return b
}

// stopWritingLocked ends the writer's turn.
func (s *Session) stopWritingLocked() {
	s.writing = false
	switch {
	case s.m.Closed():
		machine.Signal(s.drained) // sendFarewell may wait to write
	case s.m.Away() != nil:
		s.env.Spawn(s.leaveIfAway) // this write may have been the last
	}
}

// yieldLocked unlocks the mutex, lets other goroutines run, and locks it again. It
// reports whether the calling goroutine is still the writer.
func (s *Session) yieldLocked() bool {
	queued := s.m.QueuedBytes()
	s.yields++
	mine := s.yields
	s.yielding, s.overdue = true, math.MaxInt64
	s.mu.Unlock()
	runtime.Gosched()
	s.mu.Lock()
	if !s.yielding || s.yields != mine {
		s.yieldGain.learn(true)
		return false
	}
	s.yielding = false
	s.yieldGain.learn(s.m.QueuedBytes() > queued)
	return true
}

// wroteLocked counts bytes that reached the connection, and sends queued calls for
// which there is room now.
func (s *Session) wroteLocked(n int) {
	s.written += uint64(n) //nolint:gosec // not negative
	s.offered = s.written
	if s.m.QueuedCalls() > 0 {
		s.m.Promote(s.now())
	}
}

func (s *Session) wrote(n int) {
	s.mu.Lock()
	s.wroteLocked(n)
	s.mu.Unlock()
}

// offer records, before a write of n bytes, how far it may get: the peer may act on
// bytes before the write returns, so requests among them may have executed.
func (s *Session) offer(n int) {
	s.mu.Lock()
	s.offered = s.written + uint64(n) //nolint:gosec // not negative
	s.mu.Unlock()
}

// writeRest is the writer while there is a backlog. It may wait for the peer, which
// must take some bytes within every stall timeout.
func (s *Session) writeRest(b *buffer.Buffer, rest []byte) {
	for {
		if err := s.writeSlowly(rest); err != nil {
			s.fail(err)
			return
		}
		b.Put()
		if b = s.nextRest(); b == nil {
			return
		}
		rest = b.B
	}
}

// writeSlowly writes all of rest, each piece with a deadline. Bytes that the peer's host has
// acknowledged meanwhile count as progress: on a slow link the kernel's buffer may take
// nothing for long.
func (s *Session) writeSlowly(rest []byte) error {
	const piece = 64 << 10
	before := s.acked()
	for len(rest) > 0 {
		part := rest[:min(len(rest), piece)]
		s.offer(len(part))
		began := time.Now()
		n, err := s.conn.WriteBy(part, began.Add(s.env.cfg.Stall))
		s.wroteSlowly(n, time.Since(began))
		switch {
		case err == nil, n > 0 && n < len(part) && errors.Is(err, os.ErrDeadlineExceeded):
			rest, before = rest[n:], s.acked()
		case errors.Is(err, os.ErrDeadlineExceeded) && s.acked() > before:
			before = s.acked()
		case errors.Is(err, os.ErrDeadlineExceeded):
			return fmt.Errorf("%w: nothing could be written for %v", machine.ErrFlood, s.env.cfg.Stall)
		default:
			return err
		}
	}
	return nil
}

// wroteSlowly is wrote, and measures whether the link is slow. A small and quick write says
// nothing about that.
func (s *Session) wroteSlowly(n int, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wroteLocked(n)
	s.m.Measure(n, took.Seconds())
}

// acked returns how many of the written bytes have been acknowledged; 0 if that is not known.
func (s *Session) acked() uint64 {
	sent, ok := s.conn.Sent()
	if !ok {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.written - min(s.written, uint64(max(0, sent.Unacked)))
}

// nextRest takes the buffer to write next, or ends the writer. Then it removes the
// write deadline, which would also apply to writes that don't wait.
func (s *Session) nextRest() *buffer.Buffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.takeLocked()
	if b == nil || s.m.Closed() {
		s.stopWritingLocked()
		if !s.m.Closed() {
			_ = s.conn.SetWriteDeadline(time.Time{}) // fails on a closed connection only
		}
		return nil
	}
	return b
}
