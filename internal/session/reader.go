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
	"github.com/tandem-rpc/tandem/wire"
)

// reader is the turn to read a connection. It executes short handlers itself,
// so that a batch of requests costs one read, one write and no hand-over. A
// handler that takes long loses the turn: the monitor gives a new reader the
// unparsed rest, and the old goroutine ends after its handler.
//
// Session.turn says whose turn it is: even while reading, odd while executing,
// and higher with every change. Whoever moves it from an odd value owns what
// follows.
type reader struct {
	s      *Session
	buf    []byte // nil while nothing is held
	r, w   int    // the unparsed bytes are buf[r:w]
	now    int64
	gap    int64    // between the last two reads, if the last found bytes at once
	caller *Pending // whose caller reads; nil for a goroutine
	stream *Stream  // likewise, whose receiver reads
	got    bool     // its answer has come
	aged   bool     // a handler has run since now was that
	lost   bool     // the turn, and with it buf, is another's
	busy   bool     // has executed a handler of this batch, and is counted
	waited bool     // the last read found nothing at first
	armed  bool     // there is a deadline for the rest of a frame
	timed  bool     // the handler that runs is
	large  uint8    // reads for which the buffer is to be a large one

	woken   []*Pending
	frames  uint64 // parsed
	stalled uint64 // frames when the deadline was set
	lonely  int    // batches in a row with one answer and nothing else to wait for
	turn    uint64
	began   int64  // to read and to execute without waiting
	started int64  // the handler that runs, if it is timed
	answer  answer // of the call just executed, to be sent
}

const _ = uint(buffer.LargeRead - wire.HeaderLen - wire.MaxBlock) // a large buffer takes any frame

func (s *Session) newReader(turn uint64) *reader { return &reader{s: s, turn: turn} }

// Take is for the connection that reads: bytes may be there.
func (rd *reader) Take() []byte {
	rd.buf = buffer.GetRead(rd.large > 0)
	return rd.buf
}

// took notes how much a read has brought: where a small buffer is too small, the next
// are large.
func (rd *reader) took(n int) {
	rd.w += n
	switch {
	case n >= buffer.SmallRead || rd.w == len(rd.buf):
		rd.large = staysLarge
	case rd.large > 0:
		rd.large--
	}
}

// makeRoom makes room for n unparsed bytes, those that are there included.
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

// wanted is the room for the frame that has begun, as far as its length is known.
func (rd *reader) wanted() int {
	switch {
	case rd.large > 0:
		return buffer.LargeRead
	case rd.w-rd.r < wire.HeaderLen:
		return wire.HeaderLen
	}
	h, _ := wire.ParseHeader(rd.buf[rd.r:rd.w]) // next has
	return wire.HeaderLen + h.Length
}

// Give is for the connection: there were none.
func (rd *reader) Give([]byte) {
	rd.waited = true
	rd.release()
}

// release gives the buffer back. A reader that lost its turn must not: the new
// one may still be copying from it, so it is left to the collector.
func (rd *reader) release() {
	if !rd.lost && rd.buf != nil {
		buffer.PutRead(rd.buf)
		rd.buf = nil
	}
}

// turn says what has become of the turn to read.
type turn uint8

const (
	kept   turn = iota
	lost        // to another reader
	parked      // nobody has it, or a caller has: the reader is no longer ours
)

// loop reads until the connection ends or the turn is another's.
func (rd *reader) loop() {
	state := kept
	defer func() {
		if state != parked {
			rd.rest()
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

// step acts on what is in the buffer and reads more.
func (rd *reader) step() (turn, error) {
	s := rd.s
	state, err := rd.process()
	if state == parked {
		return parked, nil
	}
	rd.rest()
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

// longestHold is how long a reader goes on without waiting or letting others
// run.
const longestHold = 250 * time.Microsecond

// yield lets others run when this reader has not waited for long, because its
// peer sends as fast as it reads. The thread that Go's scheduler woke for the
// network runs this reader, and even with processors idle no other waits for
// the network until some goroutine is woken or 10 ms are over: so long would the
// bytes of other connections lie there. Gosched wakes an idle processor, which
// looks. Where connections can't try to write, each write starts a goroutine,
// which does as well.
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

// work and rest keep the count of goroutines that are at handlers: a batch of
// short ones counts once.
func (rd *reader) work() {
	if !rd.busy {
		rd.busy = true
		rd.s.env.running.Add(1)
	}
}

func (rd *reader) rest() {
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
	} else if err := rd.more(); err != nil {
		return err
	}
	before := rd.now
	rd.now, rd.aged = rd.s.now(), false
	rd.gap = 0
	if !rd.waited && rd.r == 0 {
		rd.gap = rd.now - before
	}
	rd.s.received.Store(rd.now)
	rd.s.noteRead(rd.w-rd.r-from, rd.waited, rd.now)
	return nil
}

// noteRead notes that so many bytes were read; waited says that there were none at first.
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

// ageLocked notes how long ago the last frame came to this host: what one read finds has come
// evenly since the read before, if that left nothing, or as long ago as the backlog says.
func (rd *reader) ageLocked() {
	rd.s.m.age = rd.s.backlog.Age()
	if rd.gap > shortGap {
		rd.s.m.age = max(rd.s.m.age, int64(float64(rd.gap)*float64(rd.w-rd.r)/float64(rd.w)))
	}
}

// shortGap between two reads makes no difference to a call's deadline.
const shortGap = int64(time.Millisecond)

// more reads the rest of a frame, which must not take for ever.
func (rd *reader) more() error {
	rd.makeRoom(rd.wanted())
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

// arm sets the deadline for the rest of a frame, unless whoever reads is to hand over:
// that deadline is over already.
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

// readError says why reading ended. A deadline that is of no concern to this
// reader any more is no reason.
func (rd *reader) readError(err error) error {
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return rd.pastDeadline()
	case errors.Is(err, io.EOF) && rd.r < rd.w:
		return io.ErrUnexpectedEOF
	}
	return err
}

// pastDeadline reads on if the deadline was that of a relief, or of a frame
// that is complete by now.
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
		return fmt.Errorf("%w: the rest of a frame did not come within %v", errFlood, s.env.cfg.Stall)
	}
	rd.armed = false
	if err := s.endDeadline(); err != nil {
		return err
	}
	return rd.fill()
}

// endDeadline removes the deadline for reads, unless it is the farewell's.
func (s *Session) endDeadline() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m.closed != nil {
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

// process acts on all complete frames. The turn may get lost while a handler
// runs.
func (rd *reader) process() (turn, error) {
	s := rd.s
	s.mu.Lock()
	for {
		if s.m.closed != nil {
			s.mu.Unlock()
			rd.wake()        // their calls are over: nobody else knows of them
			return lost, nil //nolint:nilerr // the session has its reason
		}
		h, payload, ok, err := rd.next()
		if err != nil || !ok {
			s.m.promote(rd.now)
			return rd.endUnlock(), err
		}
		rd.ageLocked()
		ev, err := s.m.receive(h, payload, rd.now)
		if err != nil {
			s.mu.Unlock()
			rd.wake()
			return kept, err
		}
		switch ev.wake {
		case nil:
		case rd.caller:
			rd.got = true
		default:
			rd.woken = append(rd.woken, ev.wake)
		}
		if ev.run == nil && ev.pong == 0 && !ev.away {
			continue
		}
		s.mu.Unlock()
		rd.wake()
		if !rd.act(ev) {
			return lost, nil
		}
		s.mu.Lock()
		rd.answerLocked()
	}
}

// endUnlock wakes those whose answers came, at the end of a batch.
func (rd *reader) endUnlock() turn {
	s := rd.s
	switch {
	case rd.got, rd.stream != nil && rd.stream.receivable():
		rd.answeredUnlock()
		return parked
	case s.callersRead && rd.caller == nil && rd.stream == nil && rd.parkUnlock():
		return parked
	}
	arriving := len(s.m.incoming.list) > 0
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

// answerLocked sends the answer of the call that was just executed, if one was,
// and writes when the batch has made enough for a good write.
func (rd *reader) answerLocked() {
	s := rd.s
	if rd.answer.in == nil {
		return
	}
	s.answerLocked(&rd.answer)
	rd.answer = answer{}
	if s.m.queuedBytes() >= enoughToWrite && s.leadLocked(0) {
		s.mu.Unlock()
		s.write()
		s.mu.Lock()
	}
}

func (rd *reader) wake() {
	for i, p := range rd.woken {
		rd.woken[i] = nil
		p.done <- struct{}{}
	}
	rd.woken = rd.woken[:0]
}

// wakeBefore wakes callers and starts f so that it runs after them. The
// scheduler runs what was readied last next, and the others in their order: so
// the last caller is left to wake after f has started.
func (rd *reader) wakeBefore(f func()) {
	last := len(rd.woken) - 1
	late := rd.woken[last]
	rd.woken = rd.woken[:last]
	rd.wake()
	rd.s.env.Spawn(f)
	rd.woken = append(rd.woken, late)
}

// act does what a frame asks for outside the machine; false when the turn is
// lost.
func (rd *reader) act(ev event) bool {
	s := rd.s
	switch {
	case ev.away:
		s.goAway()
	case ev.pong != 0:
		s.onPong(ev.pong, rd.now)
	case ev.run.stream != nil || ev.run.owned != nil || !ev.run.method.target.inline() || s.env.guarding():
		s.watch()
		s.runApart(ev.run)
	default:
		return rd.execute(ev.run)
	}
	return true
}

// yieldAtHandOver makes tests try other orders where the reader changes hands.
var yieldAtHandOver atomic.Bool

func handOver() {
	if yieldAtHandOver.Load() && rand.IntN(4) == 0 {
		runtime.Gosched()
	}
}

// longBatch is more than the handlers of one batch take together, as a rule: a
// call that has more time left can't be too late.
const longBatch = int64(time.Second)

// late reports whether the handlers of this batch have taken so long that the
// time of a call that came with them is over.
func (rd *reader) late(in *Inbound) bool {
	deadline := rd.s.instant(in.call.Deadline)
	return deadline != 0 && deadline-rd.now < longBatch && rd.s.now() >= deadline
}

// execute runs a handler in the reader.
func (rd *reader) execute(in *Inbound) bool {
	s := rd.s
	if rd.aged && rd.late(in) {
		in.tooLate(&rd.answer)
		return true
	}
	rd.aged = true
	rd.work()
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
	s.flush() // only the answer is ours
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
	s.flush() // answers of the batch so far
	s.env.Spawn(rd.loop)
}

// goAway ends the calls that the peer has not accepted.
func (s *Session) goAway() {
	s.mu.Lock()
	over := s.m.lost(nil, s.offered, s.remote()+" is draining")
	s.mu.Unlock()
	for _, p := range over {
		p.done <- struct{}{}
	}
}

// backOff lets the writer catch up before more requests are read. The wait is
// short: two peers may wait for each other.
func (s *Session) backOff() {
	s.mu.Lock()
	if s.m.queuedBytes() <= writeSoft || !s.writing {
		s.mu.Unlock()
		return
	}
	drained := s.drainedLocked()
	select {
	case <-drained: // of an earlier time
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
