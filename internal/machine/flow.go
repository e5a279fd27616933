package machine

import (
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/wire"
)

// bulk is a message that is sent in blocks: the rest of a large request or
// response, or a message of a stream.
type bulk struct {
	id     wire.Stream
	flags  wire.Flags // for every block
	first  wire.Flags // for the first block only
	data   []byte
	credit int64  // bytes that may still be sent of a large message; for a stream's message see Stream.credit
	began  uint64 // number of a stream's message, in the order of first blocks; 0 before its first block
	sent   bool   // the last block is in the write buffer

	// The owner; one of them is set.
	call   *Call
	in     *Request
	stream *Stream

	owner *buffer.Buffer // the memory of data, which goes back to its pool when everything is sent
}

// bulkRing sends blocks of all its messages in turn, so that none waits for
// another's end.
type bulkRing struct {
	list  []*bulk
	next  int
	began uint64 // stream messages begun so far
}

// oldest returns the message of a stream that began first, or nil. With stalled it
// includes messages that wait for their own stream's window.
func (r *bulkRing) oldest(stalled bool) (first *bulk) {
	for _, b := range r.list {
		if b.began != 0 && (stalled || b.stream.credit >= smallBlock+wire.HeaderLen) && (first == nil || b.began < first.began) {
			first = b
		}
	}
	return first
}

func (r *bulkRing) add(b *bulk) { r.list = append(r.list, b) }

func (r *bulkRing) remove(b *bulk) {
	if b == nil {
		return
	}
	for i, x := range r.list {
		if x == b {
			r.removeAt(i)
			return
		}
	}
}

func (r *bulkRing) removeAt(i int) {
	copy(r.list[i:], r.list[i+1:])
	r.list[len(r.list)-1] = nil
	r.list = r.list[:len(r.list)-1]
	if r.next > i {
		r.next--
	}
}

func (r *bulkRing) ready(m *Machine) bool {
	if len(r.list) == 0 {
		return false
	}
	only := m.onlyMessage()
	for _, b := range r.list {
		if _, ok := m.sendable(b, only); ok {
			return true
		}
	}
	return false
}

// onlyMessage returns the one message that streams may send on while their
// credit together is short: the oldest that has begun. Else many could begin and
// none complete, which would block all of them for ever.
func (m *Machine) onlyMessage() *bulk {
	if !m.roomShort() {
		return nil
	}
	veryShort := m.connRoom < int64(m.peer.ConnWindow)/4 //nolint:gosec // at most MaxWindow
	return m.ring.oldest(veryShort)
}

// firstBlock returns how many bytes of a large message go with its head: as many as there
// is room for, or none while other messages wait to be written. Then blocks of all messages
// take turns, so that a burst of large messages does not hold up small ones queued behind it.
func (m *Machine) firstBlock(size, room int) int {
	if len(m.ring.list) > 0 || m.QueuedBytes() >= bulkBatch {
		return 0
	}
	return min(size, room)
}

// smallBlock is the least size of a block, in bytes, when credit does not allow the whole rest.
const smallBlock = 4 << 10

// On a link that carries less than slowRate bytes a second, blocks are small and written one
// at a time: a small call waits for only one, and none takes as long as the stall timeout.
const (
	slowRate  = 640 << 10
	slowBlock = 16 << 10
)

// sendable returns how many bytes of b credit allows in one block. A frame's
// header counts against the credit like its payload, so tiny frames are not
// free. If only is not nil, no other message of a stream may be sent.
func (m *Machine) sendable(b, only *bulk) (n int, ok bool) {
	credit := b.credit
	if b.stream != nil {
		credit = min(b.stream.credit, m.connRoom)
		if only != nil && b != only {
			return 0, false
		}
	}
	credit -= wire.HeaderLen
	if credit < 0 {
		return 0, false
	}
	block := int64(wire.MaxBlock)
	if m.slow {
		block = slowBlock
	}
	n = int(min(int64(len(b.data)), block, credit))
	return n, n == len(b.data) || n >= smallBlock
}

// pump moves blocks from the ring to the write buffer, one block of each message in
// turn, until a batch is full or nothing more may be sent.
func (m *Machine) pump() {
	if len(m.ring.list) == 0 {
		return
	}
	batch := bulkBatch
	if m.slow {
		batch = slowBlock
	}
	idle, only := 0, m.onlyMessage()
	for idle < len(m.ring.list) && m.QueuedBytes() < batch {
		if m.ring.next >= len(m.ring.list) {
			m.ring.next = 0
		}
		b := m.ring.list[m.ring.next]
		n, ok := m.sendable(b, only)
		if !ok {
			m.ring.next++
			idle++
			continue
		}
		idle = 0
		if m.appendBlock(b, n) {
			m.ring.removeAt(m.ring.next)
			m.sentAll(b)
		} else {
			m.ring.next++
		}
		only = m.onlyMessage()
	}
}

// appendBlock appends a data frame and reports whether it was b's last.
func (m *Machine) appendBlock(b *bulk, n int) bool {
	h := wire.Header{Length: n, Type: wire.TypeData, Flags: b.flags | b.first, Stream: b.id}
	last := n == len(b.data)
	if last {
		h.Flags |= wire.FlagEnd
	}
	out := m.buf()
	out.B = wire.AppendHeader(out.B, h)
	out.B = append(out.B, b.data[:n]...)
	b.data, b.first = b.data[n:], 0
	if b.stream != nil && b.began == 0 {
		m.ring.began++
		b.began = m.ring.began
	}
	m.charge(b, n)
	return last
}

// charge takes the credit for a block of n bytes.
func (m *Machine) charge(b *bulk, n int) {
	cost := int64(n + wire.HeaderLen)
	if b.stream == nil {
		b.credit -= cost
		return
	}
	b.stream.credit -= cost
	m.connRoom -= cost
}

// sentAll notifies the owner of b that its last block is in the write buffer.
func (m *Machine) sentAll(b *bulk) {
	switch {
	case b.call != nil:
		b.call.rest = nil
		b.call.end = m.taken + uint64(len(m.out.B))
		if b.call.OneWay {
			m.calls.release(b.id)
			b.call.State = CallOver
		}
	case b.in != nil:
		b.in.rest = nil
		m.served[b.id.Index()] = nil
	case b.stream != nil:
		b.stream.sending = nil
		Signal(b.stream.CanSend)
	}
	b.owner.Put()
	b.owner, b.sent = nil, true
}

func (m *Machine) onWindow(h wire.Header, payload []byte) error {
	n, err := wire.ParseWindow(payload)
	if err != nil {
		return err
	}
	credit := m.creditOf(h)
	if credit == nil {
		return nil // the call is over
	}
	if *credit += int64(n); *credit > wire.MaxWindow {
		return violationf("credit of %d bytes, limit %d", *credit, wire.MaxWindow)
	}
	return nil
}

// creditOf returns the credit that a window frame adds to, or nil.
func (m *Machine) creditOf(h wire.Header) *int64 {
	if h.Stream == 0 {
		return &m.connRoom
	}
	if h.Flags&wire.FlagAnswer != 0 {
		if s := m.calls.get(h.Stream); s != nil && s.p != nil {
			return bulkCredit(s.p.Stream, s.p.rest)
		}
		return nil
	}
	if in := m.serving(h.Stream); in != nil {
		return bulkCredit(in.stream, in.rest)
	}
	return nil
}

func bulkCredit(st *Stream, b *bulk) *int64 {
	switch {
	case st != nil:
		return &st.credit
	case b != nil:
		return &b.credit
	}
	return nil
}

// assembly is a message that arrives in several blocks.
type assembly struct {
	id     wire.Stream
	answer wire.Flags // FlagAnswer when the peer opened the call
	buf    *buffer.Buffer
	have   int   // bytes of the message in buf
	size   int   // declared size, which must be what arrives
	credit int64 // bytes that the peer may still send

	in      *Request // the call whose request it is; or nil
	granted bool     // the memory of the request is reserved, so that more may arrive
	since   int64    // ns; since when it has waited for memory while the budget served no other wait; 0 before
	served  uint64   // number of waits that the budget had served at since

	stream *Stream // a partial message of a stream; size and credit are unused
}

// assemblies are the messages that are arriving, in the order in which they began. The
// oldest always gets credit, and so does the oldest that is not of a stream, as a stream's
// may wait for its receiver: so one always completes. The others share a budget.
type assemblies struct {
	list []*assembly
	held int64 // bytes of all messages, arrived or covered by credit

	last  int64 // ns; when enough bytes of requests and blocks had last arrived, or credit was given
	came  int   // bytes of requests and blocks that arrived after last
	given bool  // credit was given since the monitor last looked
}

// leastProgress is how many bytes must arrive within a stall timeout while a large message has
// credit: a few small requests do not prevent the timeout.
const leastProgress = 4 << 10

// countArrived counts n bytes of a request or a block.
func (in *assemblies) countArrived(n int, now int64) {
	if in.came += n; in.came >= leastProgress || len(in.list) == 0 {
		in.came, in.last = 0, now
	}
}

// stalled reports whether a message has had credit for longer than most while fewer than
// leastProgress bytes arrived. All messages count together, as they share the peer's send
// buffer and the link: one of them may just wait for its turn. A wait for credit does not count.
func (in *assemblies) stalled(now int64, most time.Duration) bool {
	if in.given {
		in.last, in.given = now, false
	}
	if now-in.last <= int64(most) {
		return false
	}
	return slices.ContainsFunc(in.list, func(a *assembly) bool { return a.stream == nil && a.credit > smallBlock })
}

// waitedTooLong reports whether a message has waited for memory for longer than most while no
// other message got any. served is how many waits the budget has served so far.
func (a *assembly) waitedTooLong(now int64, most time.Duration, served uint64) bool {
	if a.granted {
		return false
	}
	if a.since == 0 || a.served != served {
		a.since, a.served = now, served
	}
	return now-a.since > int64(most)
}

// whole returns how many bytes a large message needs: twice its size if it is put together from pieces.
func (a *assembly) whole() int64 {
	if a.size > buffer.PieceSize {
		return 2 * int64(a.size)
	}
	return int64(a.size)
}

func (m *Machine) startAssembly(a *assembly) error {
	if a.have >= a.size {
		return violationf("message of %d bytes goes on after %d", a.size, a.have)
	}
	m.incoming.list = append(m.incoming.list, a)
	m.incoming.held += int64(a.have)
	m.grant()
	return nil
}

// extend appends a block and reports whether the message is complete.
func (m *Machine) extend(a *assembly, h wire.Header, payload []byte, now int64) (done bool, err error) {
	m.incoming.countArrived(len(payload)+wire.HeaderLen, now)
	cost := int64(len(payload) + wire.HeaderLen)
	if a.credit -= cost; a.credit < 0 {
		return false, violationf("%d bytes more than the window allows", -a.credit)
	}
	m.incoming.held -= wire.HeaderLen
	left := a.size - a.have
	a.have += len(payload)
	done = h.Flags&wire.FlagEnd != 0
	if a.have > a.size || done && a.have < a.size {
		return false, violationf("message of %d bytes was announced as %d", a.have, a.size)
	}
	a.buf.Append(payload, left)
	switch {
	case done:
		m.dropAssembly(a)
	case a.creditDue(false) > 0: // not after every small block: grant looks at all messages
		m.grant()
	}
	return done, nil
}

func (m *Machine) dropAssembly(a *assembly) {
	if a == nil {
		return
	}
	for i, x := range m.incoming.list {
		if x != a {
			continue
		}
		m.incoming.list = append(m.incoming.list[:i], m.incoming.list[i+1:]...)
		if a.stream != nil {
			m.incoming.held -= a.stream.early
		} else {
			m.incoming.held -= int64(a.have) + a.credit
		}
		m.grant()
		return
	}
}

// grant gives credit: to the oldest messages always, to others from the budget.
func (m *Machine) grant() {
	large := true // the next message that is not of a stream is the oldest such message
	for i, a := range m.incoming.list {
		if a.awaitsReceiver() || a.in != nil && !a.granted {
			continue
		}
		always := i == 0 || large && a.stream == nil
		large = large && a.stream != nil
		n := a.creditDue(m.connShort())
		if n == 0 || !always && m.incoming.held+n > AssemblyBudget {
			continue
		}
		m.incoming.held += n
		if a.stream != nil {
			a.stream.early += n
			m.returnCredit(a.stream, n+a.stream.owed)
			a.stream.owed = 0
			m.returnConn(n)
			continue
		}
		a.credit += n
		m.incoming.given = true
		out := m.buf()
		out.B = wire.AppendWindow(out.B, a.id, a.answer, uint32(n)) //nolint:gosec // at most AssemblyAhead
	}
}

// awaitsReceiver reports whether a stream's message gets no credit before its receiver has taken earlier ones.
func (a *assembly) awaitsReceiver() bool { return a.stream != nil && len(a.stream.queue) > 0 }

// creditDue returns how much credit the peer should get for a now. A stream's message
// can't be received before it is complete, so its credit is returned while it
// arrives: when that is half of the stream's window, together with what was
// received, or when short says that the connection's window runs short.
func (a *assembly) creditDue(short bool) int64 {
	if st := a.stream; st != nil {
		if held := st.partialCost - st.early; short || held+st.owed >= st.window/2 {
			return held
		}
		return 0
	}
	left := a.size - a.have
	need := int64(left + (left/smallBlock+2)*wire.HeaderLen)
	if a.credit >= need || a.credit > AssemblyAhead/2 {
		return 0
	}
	return AssemblyAhead - a.credit
}
