package session

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/wire"
)

// reader is the turn to read a connection. It executes short handlers itself,
// so that a batch of requests costs one read, one write and no hand-over. A
// handler that takes long loses the turn: the monitor gives a new reader the
// unparsed rest, and the old goroutine ends after its handler.
//
// Session.turn is even while the reader reads, odd while it executes a handler, and
// grows with every change. It leaves an odd value by a compare-and-swap: of the
// reader, which then keeps the turn, or of steal, which takes it away.
type reader struct {
	s      *Session
	buf    []byte        // nil while nothing is held
	r, w   int           // the unparsed bytes are buf[r:w]
	now    int64         // ns; time of the last read or yield
	gap    int64         // ns between the last two reads, if the last found bytes at once; else 0
	caller *machine.Call // the call whose caller reads; nil if no caller reads
	stream *Stream       // the stream whose receiver reads; nil if no receiver reads
	got    bool          // the caller's response has arrived
	aged   bool          // a handler has run since now was set
	lost   bool          // another reader has the turn
	busy   bool          // the reader has executed a handler of this batch, and counts in Env.running
	waited bool          // the last read found nothing at first
	armed  bool          // a read deadline is set for the rest of a frame
	timed  bool          // the handler that runs is timed
	large  uint8         // number of reads that still get a large buffer

	woken       []*machine.Call
	frames      uint64 // frames parsed
	stalled     uint64 // value of frames when the deadline was set
	loneBatches int    // batches in a row with one response, after which nothing else was in flight
	turn        uint64
	began       int64  // ns; when the reader last waited or yielded
	started     int64  // ns; when the handler that runs began, if it is timed
	answer      answer // response of the call just executed, not queued yet
}

const _ = uint(buffer.LargeRead - wire.HeaderLen - wire.MaxBlock) // a large buffer takes any frame

func (s *Session) newReader(turn uint64) *reader { return &reader{s: s, turn: turn} }

// Take returns a buffer to read into. ReadLazy calls it when bytes may be there.
func (rd *reader) Take() []byte {
	rd.buf = buffer.GetRead(rd.large > 0)
	return rd.buf
}

// took counts the n bytes of a read. After a read that a small buffer is too small for,
// the next staysLarge buffers are large.
func (rd *reader) took(n int) {
	rd.w += n
	switch {
	case n >= buffer.SmallRead || rd.w == len(rd.buf):
		rd.large = staysLarge
	case rd.large > 0:
		rd.large--
	}
}

// makeRoom makes room for n unparsed bytes, including those that are there.
func (rd *reader) makeRoom(n int) {
	old := rd.buf
	if n > len(old) {
		rd.buf = buffer.GetRead(true)
	}
	rd.w = copy(rd.buf, old[rd.r:rd.w])
	rd.r = 0
	if n > len(old) {
		buffer.PutRead(old)
	}
}

// roomNeeded returns how much room the frame that has begun needs, as far as its length is known.
func (rd *reader) roomNeeded() int {
	switch {
	case rd.large > 0:
		return buffer.LargeRead
	case rd.w-rd.r < wire.HeaderLen:
		return wire.HeaderLen
	}
	h, _ := wire.ParseHeader(rd.buf[rd.r:rd.w]) // next has checked it
	return wire.HeaderLen + h.Length
}

// Give takes the buffer back. ReadLazy calls it when there were no bytes.
func (rd *reader) Give([]byte) {
	rd.waited = true
	rd.release()
}

// release gives the buffer back. A reader that lost its turn leaves the buffer to the
// garbage collector: steal may still be copying from it.
func (rd *reader) release() {
	if !rd.lost && rd.buf != nil {
		buffer.PutRead(rd.buf)
		rd.buf = nil
	}
}

// turn is the state of a reader's turn to read.
type turn uint8

const (
	kept   turn = iota
	lost        // another reader has the turn
	parked      // another goroutine may have the turn by now: the reader must not be used
)

// loop reads until the connection ends or the reader has lost or parked its turn.
func (rd *reader) loop() {
	state := kept
	defer func() {
		if state != parked {
			rd.endWork()
			rd.release()
		}
	}()
	for state == kept {
		var err error
		if state, err = rd.step(); err != nil {
			rd.s.fail(err)
			return
		}
	}
}

// step handles what is in the buffer and reads more.
func (rd *reader) step() (turn, error) {
	s := rd.s
	state, err := rd.process()
	if state == parked {
		return parked, nil
	}
	rd.endWork()
	if err != nil || state != kept {
		return state, err
	}
	s.flush()
	s.leaveIfAway()
	s.backOff()
	rd.waited = false
	if err := rd.fill(); err != nil {
		return kept, err
	}
	rd.yield()
	return kept, nil
}

// longestHold is how long a reader runs without waiting or yielding.
const longestHold = 250 * time.Microsecond

// yield calls Gosched when this reader has not waited for longestHold, because its
// peer sends as fast as it reads. The thread that Go's scheduler woke for the
// network runs this reader, and even with idle processors no other thread polls
// the network until a goroutine is woken or 10 ms are over. The bytes of other
// connections would wait that long. Gosched wakes an idle processor, which polls.
// Where connections can't try to write, each write starts a goroutine, which has
// the same effect.
func (rd *reader) yield() {
	switch {
	case rd.waited || !rd.s.conn.CanTry():
		rd.began = rd.now
	case rd.now-rd.began > int64(longestHold):
		runtime.Gosched()
		rd.now = rd.s.now()
		rd.began = rd.now
	}
}

// beginWork counts this goroutine as one that runs handlers, until endWork: a batch of short
// handlers counts once.
func (rd *reader) beginWork() {
	if !rd.busy {
		rd.busy = true
		rd.s.env.running.Add(1)
	}
}

func (rd *reader) endWork() {
	if rd.busy {
		rd.busy = false
		rd.s.env.running.Add(-1)
	}
}

// fill waits for bytes. An idle connection holds no buffer meanwhile.
func (rd *reader) fill() error {
	from := rd.w - rd.r
	if rd.r == rd.w {
		rd.r, rd.w = 0, 0
		rd.release()
		_, n, err := rd.s.conn.ReadLazy(rd)
		if err != nil {
			return rd.readError(err)
		}
		rd.took(n)
	} else if err := rd.readRest(); err != nil {
		return err
	}
	before := rd.now
	rd.now, rd.aged = rd.s.now(), false
	rd.gap = 0
	if !rd.waited && rd.r == 0 && rd.s.conn.CanTry() { // else nobody knows whether the read waited
		rd.gap = rd.now - before
	}
	rd.s.received.Store(rd.now)
	rd.s.noteRead(rd.w-rd.r-from, rd.waited, rd.now)
	return nil
}

// noteRead records in the backlog that n bytes were read; waited means that the reader had to
// wait for them.
func (s *Session) noteRead(n int, waited bool, now int64) {
	switch b := &s.backlog; {
	case s.env.cfg.Gate == nil:
	case waited:
		b.Waited(now)
	case b.Read(n, now, s.env.cfg.Gate.Every()):
		r, _ := s.conn.Received()
		b.Count(r.Unread, r.Age, now)
		s.env.cfg.Gate.Behind(time.Duration(b.Age()))
	}
}

// ageLocked estimates how long ago the frame just parsed arrived at this host: the bytes of
// one read have arrived evenly since the read before, if that left nothing, or as long ago as
// the backlog says.
func (rd *reader) ageLocked() {
	age := rd.s.backlog.Age()
	if rd.gap > shortGap {
		age = max(age, int64(float64(rd.gap)*float64(rd.w-rd.r)/float64(rd.w)))
	}
	rd.s.m.SetAge(age)
}

// shortGap is the longest gap between two reads, in ns, that does not matter to a call's deadline.
const shortGap = int64(time.Millisecond)

// readRest reads the rest of a frame. Without progress it fails after the stall timeout.
func (rd *reader) readRest() error {
	rd.makeRoom(rd.roomNeeded())
	if !rd.armed || rd.stalled != rd.frames {
		if err := rd.arm(); err != nil {
			return err
		}
	}
	n, err := rd.s.conn.Read(rd.buf[rd.w:])
	rd.took(n)
	if n > 0 {
		return nil
	}
	return rd.readError(err)
}

// arm sets the deadline for the rest of a frame, unless the caller that reads is relieved:
// then the deadline is in the past, and must stay there.
func (rd *reader) arm() error {
	s := rd.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.relieved {
		return nil
	}
	rd.armed, rd.stalled = true, rd.frames
	return s.conn.SetReadDeadline(time.Now().Add(s.env.cfg.Stall))
}

// readError returns why reading ended. After a deadline that no longer applies it
// reads on, and returns that read's error or nil.
func (rd *reader) readError(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return rd.pastDeadline()
	case errors.Is(err, io.EOF) && rd.r < rd.w:
		return io.ErrUnexpectedEOF
	}
	return err
}

// pastDeadline handles a read deadline that has passed. It returns errRelieved to a
// caller that is relieved, and an error if a frame is incomplete. Else the deadline
// no longer applies, and it reads on.
func (rd *reader) pastDeadline() error {
	s := rd.s
	switch {
	case s.endRelief():
		rd.armed = false
		if rd.caller != nil || rd.stream != nil {
			return errRelieved
		}
		return rd.fill()
	case rd.r < rd.w:
		return fmt.Errorf("%w: the rest of a frame did not come within %v", machine.ErrFlood, s.env.cfg.Stall)
	}
	rd.armed = false
	if err := s.endDeadline(); err != nil {
		return err
	}
	return rd.fill()
}

// endDeadline removes the read deadline, unless the session has ended: then it is sendFarewell's.
func (s *Session) endDeadline() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m.Closed() {
		return os.ErrDeadlineExceeded
	}
	return s.conn.SetReadDeadline(time.Time{})
}

// next returns the next complete frame in the buffer.
func (rd *reader) next() (h wire.Header, payload []byte, ok bool, err error) {
	if rd.w-rd.r < wire.HeaderLen {
		return h, nil, false, nil
	}
	if h, err = wire.ParseHeader(rd.buf[rd.r:rd.w]); err != nil {
		return h, nil, false, err
	}
	start := rd.r + wire.HeaderLen
	if rd.w-start < h.Length {
		return h, nil, false, nil
	}
	rd.r = start + h.Length
	rd.frames++
	return h, rd.buf[start:rd.r:rd.r], true, nil
}

// process handles all complete frames in the buffer. It may lose the turn while a
// handler runs.
func (rd *reader) process() (turn, error) {
	s := rd.s
	s.mu.Lock()
	for {
		if s.m.Closed() {
			s.mu.Unlock()
			rd.wake() // the calls of rd.woken are over, and only this reader refers to them
			return lost, nil
		}
		h, payload, ok, err := rd.next()
		if err != nil || !ok {
			s.m.Promote(rd.now)
			return rd.endUnlock(), err
		}
		rd.ageLocked()
		ev, in, err := rd.receiveLocked(h, payload)
		if err != nil {
			s.mu.Unlock()
			rd.wake()
			return kept, err
		}
		switch ev.Kind {
		case machine.Done:
			if ev.Call == rd.caller {
				rd.got = true
			} else {
				rd.woken = append(rd.woken, ev.Call)
			}
			continue
		case machine.Run, machine.Pong, machine.Away:
		default:
			continue
		}
		s.mu.Unlock()
		rd.wake()
		if !rd.act(ev, in) {
			return lost, nil
		}
		s.mu.Lock()
		rd.answerLocked()
	}
}

// endUnlock ends a batch: it wakes the callers whose responses arrived, parks the turn
// if that is possible, and unlocks the session.
func (rd *reader) endUnlock() turn {
	s := rd.s
	switch {
	case rd.got, rd.stream != nil && rd.stream.m.Receivable():
		rd.answeredUnlock()
		return parked
	case s.callersRead && rd.caller == nil && rd.stream == nil && rd.parkUnlock():
		return parked
	}
	arriving := s.m.Arriving() > 0
	reserved := s.reserveLocked(len(rd.woken), rd.now)
	s.mu.Unlock()
	if reserved {
		rd.wakeBefore(s.writeReserved)
	}
	rd.wake()
	if arriving {
		s.watch()
	}
	return kept
}

// answerLocked queues the response of the call that was just executed, if any, and
// writes when enough is queued.
func (rd *reader) answerLocked() {
	s := rd.s
	if rd.answer.in == nil {
		return
	}
	s.answerLocked(&rd.answer)
	rd.answer = answer{}
	if s.m.QueuedBytes() >= enoughToWrite && s.leadLocked(0) {
		s.mu.Unlock()
		s.write()
		s.mu.Lock()
	}
}

func (rd *reader) wake() {
	for i, p := range rd.woken {
		rd.woken[i] = nil
		p.Done <- struct{}{}
	}
	rd.woken = rd.woken[:0]
}

// wakeBefore wakes all callers but the last and starts f so that it runs after
// them. The scheduler runs the goroutine that was readied last first, and the
// others in order: so the last caller must be woken after f has started.
func (rd *reader) wakeBefore(f func()) {
	last := len(rd.woken) - 1
	late := rd.woken[last]
	rd.woken = rd.woken[:last]
	rd.wake()
	rd.s.env.Spawn(f)
	rd.woken = append(rd.woken, late)
}

// act does what an event requires outside the machine; false when the turn is
// lost.
func (rd *reader) act(ev machine.Event, in *Inbound) bool {
	s := rd.s
	switch {
	case ev.Kind == machine.Away:
		s.goAway()
	case ev.Kind == machine.Pong:
		s.onPong(ev.Ping, rd.now)
	case in.stream != nil || in.Owned != nil || !in.method.target.inline() || s.env.guarding():
		s.runApart(in)
	default:
		return rd.execute(in)
	}
	return true
}

// yieldAtHandOver is set by tests, to vary the order of goroutines where the turn changes hands.
var yieldAtHandOver atomic.Bool

func handOver() {
	if yieldAtHandOver.Load() && rand.IntN(4) == 0 {
		runtime.Gosched()
	}
}

// longBatch is more than the handlers of one batch usually take together: a call
// that had more time left when the batch was read is not checked by late.
const longBatch = int64(time.Second)

// late reports whether the deadline of a call has passed while the handlers before
// it in its batch ran.
func (rd *reader) late(in *Inbound) bool {
	deadline := rd.s.instant(in.call.Deadline)
	return deadline != 0 && deadline-rd.now < longBatch && rd.s.now() >= deadline
}

// execute runs a handler in the reader; false when the turn is lost.
func (rd *reader) execute(in *Inbound) bool {
	s := rd.s
	if rd.aged && rd.late(in) {
		in.tooLate(&rd.answer)
		return true
	}
	rd.aged = true
	rd.beginWork()
	in.method.runs++
	s.running, s.current = in.method, rd
	if rd.timed = in.method.toTime(); rd.timed {
		rd.started = s.now()
	}
	odd := rd.turn + 1
	s.turn.Store(odd)
	handOver()
	s.watch()
	returned := false
	defer func() {
		if !returned { // the handler ended this goroutine
			rd.lost = true
			s.steal(odd)
			s.flush()
		}
	}()
	in.execute(&rd.answer)
	returned = true
	rd.turn += 2
	handOver()
	if s.turn.CompareAndSwap(odd, rd.turn) {
		if rd.timed {
			s.running.took(s.now() - rd.started)
		}
		return true
	}
	rd.lost = true
	s.answer(&rd.answer)
	s.flush() // the response only: the rest of the batch is another reader's
	return false
}

// steal takes the turn from a reader whose handler takes long and gives it,
// with the unparsed bytes, to a new one.
func (s *Session) steal(seen uint64) {
	if !s.turn.CompareAndSwap(seen, seen+1) {
		return
	}
	handOver()
	old := s.current
	s.running.heldUp()
	rd := s.newReader(seen + 1)
	rd.now, rd.aged, rd.frames = old.now, true, old.frames
	if n := old.w - old.r; n > 0 {
		rd.buf = buffer.GetRead(n > buffer.SmallRead)
		rd.w = copy(rd.buf, old.buf[old.r:old.w])
	}
	s.flush() // responses of the batch so far
	s.env.Spawn(rd.loop)
}

// goAway ends the calls that a draining peer has not accepted.
func (s *Session) goAway() {
	s.mu.Lock()
	over := s.m.Lost(nil, s.offered, s.remote()+" is draining")
	s.endGoneLocked()
	s.mu.Unlock()
	for _, p := range over {
		p.Done <- struct{}{}
	}
}

// backOff waits until the writer has caught up, before more requests are read. The
// wait is bounded: two peers may wait for each other.
func (s *Session) backOff() {
	s.mu.Lock()
	if s.m.QueuedBytes() <= machine.WriteSoft || !s.writing {
		s.mu.Unlock()
		return
	}
	drained := s.drainedLocked()
	select {
	case <-drained: // a token from earlier
	default:
	}
	s.mu.Unlock()
	timer := time.NewTimer(250 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C:
	}
}
