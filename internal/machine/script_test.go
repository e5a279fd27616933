package machine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/wire"
)

// A script has two machines talk to each other as the bytes of a string say: which side does
// what next, and how many of the frames on their way arrive. Whatever the bytes are, no side
// takes the other for one that breaks the protocol, each call ends once and gets its own answer,
// and when all is over no slot, credit or memory is left.
type script struct {
	t     *testing.T
	bytes []byte
	sides [2]*actor
	now   int64
	calls uint32 // number of calls made

	ran    map[uint32]bool // calls whose method has run
	notRun map[uint32]bool // calls that have ended as not executed
}

// actor is one side of a script.
type actor struct {
	s    *script
	m    *Machine
	peer *actor

	wires    []byte // written, and not arrived at the peer yet
	pending  []*scriptCall
	byCall   map[*Call]*scriptCall
	running  []*Request
	draining bool
	pings    int // without an answer
}

// scriptCall is a call that an actor has made.
type scriptCall struct {
	*Call

	number uint32
	left   bool // given up by its caller
	over   bool
}

// scriptSettings has small limits, so that scripts reach them.
func scriptSettings() wire.Settings {
	s := rawSettings()
	s.MaxOpen, s.StreamWindow, s.ConnWindow, s.MaxMessage = 5, 32<<10, 128<<10, 1<<20
	return s
}

func newScript(t *testing.T, b []byte) *script {
	s := &script{t: t, bytes: b, now: int64(time.Hour), ran: map[uint32]bool{}, notRun: map[uint32]bool{}}
	for i := range s.sides {
		m := machineOf(scriptSettings(), scriptSettings(), time.Hour, table{"echo": {}, "talk": streaming()})
		s.sides[i] = &actor{s: s, m: m, byCall: map[*Call]*scriptCall{}}
	}
	s.sides[0].peer, s.sides[1].peer = s.sides[1], s.sides[0]
	return s
}

// next returns the next byte of the script, 0 after its end.
func (s *script) next() int {
	if len(s.bytes) == 0 {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return int(b)
}

// run plays the script, lets everything come to its end, and checks what is left.
func (s *script) run() {
	for len(s.bytes) > 0 {
		a := s.sides[s.next()&1]
		a.act(s.next())
	}
	s.settle()
	for i, a := range s.sides {
		a.check(i)
	}
	for number := range s.notRun {
		if s.ran[number] {
			s.t.Errorf("call %d ended as not executed, and has run", number)
		}
	}
}

// sizes of messages, in bytes; large ones need several blocks, and more than the windows.
var scriptSizes = []int{0, 1, 100, 3000, 20_000, wire.MaxBlock - 100, wire.MaxBlock + 1, 200_000, 500_000} //nolint:gochecknoglobals // a constant

func (a *actor) act(what int) {
	s := a.s
	switch what % 12 {
	case 0, 1:
		a.call(scriptSizes[s.next()%len(scriptSizes)], "echo")
	case 2:
		a.call(0, "talk")
	case 3:
		a.leave(s.next())
	case 4, 5, 6:
		a.arrive(1 + s.next()%8)
	case 7:
		a.reply(s.next())
	case 8:
		a.send(s.next())
	case 9:
		a.receive(s.next())
	case 10:
		s.now += int64(time.Duration(s.next()) * time.Millisecond)
		a.expire()
	case 11:
		a.rare(s.next())
	}
	a.write()
}

// rare does what happens seldom on a connection.
func (a *actor) rare(what int) {
	switch {
	case what < 8 && !a.draining:
		a.draining = true
		a.m.Drain("")
	case what < 64:
		a.m.slow = !a.m.slow
	case a.pings < maxPongs: // more without an answer are a flood
		a.pings++
		a.m.Ping([8]byte{byte(what)})
	}
}

// scriptMessage returns a message that names its call.
func scriptMessage(call uint32, size int) []byte { return sealed(call, call, size) }

func (a *actor) call(size int, method string) {
	s := a.s
	s.calls++
	c := &scriptCall{number: s.calls, Call: &Call{Method: method, Codec: "raw"}}
	switch kind := s.next(); {
	case method == "talk":
		a.m.InitStream(new(Stream), c.Call, nil, 0)
	case kind%8 == 0:
		c.OneWay = true
	case kind%8 == 1:
		c.Expires = s.now + int64(time.Duration(kind)*time.Millisecond)
	}
	if method == "echo" {
		c.Message = scriptMessage(c.number, size)
	}
	a.byCall[c.Call] = c
	if err := a.m.Open(c.Call, s.now); err != nil {
		if code := err.Code; code != tandem.Unavailable && code != tandem.DeadlineExceeded && code != tandem.ResourceExhausted || !err.NotExecuted {
			s.t.Errorf("a call that can't be made: %v", err)
		}
		return
	}
	if !c.OneWay {
		a.pending = append(a.pending, c)
	}
}

// pick returns one of the list that the number stands for; false if there is none.
func pick[T any](list []T, n int, fits func(T) bool) (x T, ok bool) {
	for i := range list {
		if y := list[(n+i)%len(list)]; fits(y) {
			return y, true
		}
	}
	return x, false
}

func (a *actor) leave(n int) {
	c, ok := pick(a.pending, n, func(c *scriptCall) bool { return !c.over && !c.left })
	switch {
	case !ok:
	case c.Stream != nil && c.State == CallOver: // accepted: Abort
		a.m.Abort(c.Stream, GivenUp(errDeadline, false))
		c.left = true
	case c.State != CallOver:
		a.m.Leave(c.Call)
		c.left = true
	}
}

// write takes what the machine writes.
func (a *actor) write() {
	a.m.Promote(a.s.now)
	for b := a.m.Take(); b != nil; b = a.m.Take() {
		a.wires = append(a.wires, b.B...)
		b.Put()
	}
}

// arrive has the peer receive n frames.
func (a *actor) arrive(n int) {
	for range n {
		if len(a.wires) == 0 {
			return
		}
		h, err := wire.ParseHeader(a.wires)
		if err != nil {
			a.s.t.Fatal(err)
		}
		payload := bytes.Clone(a.wires[wire.HeaderLen : wire.HeaderLen+h.Length])
		a.wires = a.wires[wire.HeaderLen+h.Length:]
		in := incoming()
		event, err := a.peer.m.Receive(h, payload, a.s.now, in)
		if err != nil {
			a.s.t.Fatalf("frame of type %d, flags %#x: %v", h.Type, h.Flags, err)
		}
		a.peer.happened(event, in.Kind)
	}
	a.peer.write()
}

// requestOf returns the message of a request.
func requestOf(in *Request) []byte {
	if in.Owned != nil {
		return in.Owned.Whole()
	}
	return in.Message
}

func (a *actor) happened(e Event, kind tandem.Kind) {
	switch e.Kind {
	case Run:
		if kind == tandem.Streaming {
			a.m.InitStream(new(Stream), nil, e.Request, 0)
		}
		a.running = append(a.running, e.Request)
		if number, _, ok := opened(requestOf(e.Request)); ok {
			a.s.ran[number] = true
		}
	case Done:
		a.over(e.Call)
	case Pong:
		a.pings--
	case Away:
		for _, p := range a.m.Lost(nil, a.m.taken, "draining") {
			a.over(p)
		}
	}
}

// over checks how a call has ended.
func (a *actor) over(p *Call) {
	c := a.byCall[p]
	if c.left || c.over {
		a.s.t.Errorf("call %d has ended, and was over before", c.number)
	}
	switch {
	case c.Err != nil:
		c.over = true
		a.checkError(c, c.Err)
	case c.Stream != nil: // accepted
	default:
		c.over = true
		reply, err := replyOf(c.Call)
		if err != nil {
			a.checkError(c, tandem.AsError(err))
			return
		}
		if caller, number, ok := opened(reply); !ok || caller != c.number || number != c.number {
			a.s.t.Errorf("call %d got the answer of call %d", c.number, number)
		}
	}
}

func (a *actor) checkError(c *scriptCall, err *tandem.Error) {
	if err.NotExecuted {
		a.s.notRun[c.number] = true
	}
	drained := errors.Is(err, ErrDraining) && a.peer.draining
	if c.OneWay && err.Code == tandem.ResourceExhausted { // the peer runs as many as it may
		return
	}
	if err.Code != tandem.DeadlineExceeded && err.Code != tandem.Aborted && !drained {
		a.s.t.Errorf("call %d: %v", c.number, err)
	}
}

func (a *actor) expire() {
	for _, p := range a.m.Expire(a.s.now) {
		a.over(p)
	}
}

// reply ends a method that runs: with the request's message, or with an error.
func (a *actor) reply(n int) {
	if len(a.running) == 0 {
		return
	}
	i := n % len(a.running)
	in := a.running[i]
	a.running = append(a.running[:i], a.running[i+1:]...)
	var r wire.Response
	if n%7 == 0 {
		r.Status = EncodeStatus(&tandem.Error{Code: tandem.Aborted, Message: "as it happens"})
	}
	if in.stream != nil && len(r.Status) == 0 {
		a.m.Accept(in)
	}
	in.Reply = buffer.Get()
	in.Reply.B = append(in.Reply.B, requestOf(in)...)
	in.Owned.Put()
	a.m.Respond(in, &r, 0)
}

// stream returns one of the streams of this side that may still send, of calls of its own or of
// the peer's.
func (a *actor) streams() (all []*Stream) {
	for _, c := range a.pending {
		if c.Stream != nil && c.State == CallOver && !c.left && !c.Stream.over {
			all = append(all, c.Stream)
		}
	}
	for _, in := range a.running {
		if in.stream != nil {
			all = append(all, in.stream)
		}
	}
	return all
}

// send does what a stream's sender can do next: accept it, send a message, or end its messages.
func (a *actor) send(n int) {
	st, ok := pick(a.streams(), n, func(st *Stream) bool { return st.sending == nil && st.sendErr == nil })
	if !ok {
		return
	}
	if st.in != nil && !st.in.accepted {
		a.m.Accept(st.in)
		return
	}
	if st.in == nil && n%5 == 0 {
		a.m.CloseSend(st)
		return
	}
	size := scriptSizes[n%len(scriptSizes)]
	queueMessage(a.m, st, scriptMessage(uint32(size), size))
}

// receive takes a message of a stream.
func (a *actor) receive(n int) {
	st, ok := pick(a.streams(), n, func(st *Stream) bool { return len(st.queue) > 0 })
	if !ok {
		return
	}
	if size, _, whole := opened(a.m.Pop(st).Buf.B); !whole {
		a.s.t.Errorf("a message of %d bytes of a stream is damaged", size)
	}
}

// settle lets everything come to its end: all frames arrive, methods return, messages are
// received. Streams are ended by those that opened them.
func (s *script) settle() {
	for round := 0; ; round++ {
		busy := false
		for _, a := range s.sides {
			a.write()
			for len(a.streams()) > 0 && a.receiveAll() {
				busy = true
			}
			for range a.running {
				a.reply(1)
				busy = true
			}
			a.write()
			busy = busy || len(a.wires) > 0
			a.arrive(1000)
			busy = a.abortStreams() || busy
		}
		if !busy {
			return
		}
		if round > 10_000 {
			s.t.Fatal("it does not come to its end")
		}
	}
}

func (a *actor) receiveAll() (some bool) {
	for _, st := range a.streams() {
		for len(st.queue) > 0 {
			a.m.Pop(st)
			some = true
		}
	}
	return some
}

func (a *actor) abortStreams() (some bool) {
	for _, c := range a.pending {
		if c.Stream != nil && c.State == CallOver && !c.left && !c.Stream.over {
			a.m.Abort(c.Stream, GivenUp(errDeadline, false))
			c.left, some = true, true
		}
	}
	return some
}

// check checks that nothing is left.
func (a *actor) check(side int) {
	m := a.m
	var left []string
	note := func(what string, n int) {
		if n != 0 {
			left = append(left, fmt.Sprintf("%d %s", n, what))
		}
	}
	note("open calls", m.calls.open)
	note("queued calls", len(m.queue))
	note("large messages that are sent", len(m.ring.list))
	note("large messages that arrive", len(m.incoming.list))
	note("bytes of those", int(m.incoming.held))
	note("running methods", m.running)
	for _, in := range m.served {
		if in != nil {
			note("slot of the peer's", 1)
		}
	}
	for _, c := range a.pending {
		if !c.over && !c.left && (c.Stream == nil || !c.Stream.over) {
			note(fmt.Sprintf("is a call without an end, %s in state %d", c.Method, c.State), int(c.number))
		}
	}
	window := int64(m.Own.ConnWindow)
	note("bytes of the connection's window are lost", int(window-m.connSpare-m.connOwed))
	note("bytes of credit differ between the sides", int(m.connSpare-a.peer.m.connRoom))
	if len(left) > 0 {
		a.s.t.Errorf("side %d: %v", side, left)
	}
}

// TestScripts plays random scripts, the same in every run.
func TestScripts(t *testing.T) {
	seeds := uint64(150)
	if raceEnabled { // there is one goroutine
		seeds = 15
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 7))
		b := make([]byte, 100+r.IntN(1000))
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		newScript(t, b).run()
		if t.Failed() {
			t.Fatalf("script of seed %d", seed)
		}
	}
}

// FuzzScripts searches for a script that ends badly.
func FuzzScripts(f *testing.F) {
	f.Add([]byte("two calls that are large, a stream, and a cancel"))
	f.Fuzz(func(t *testing.T, b []byte) {
		newScript(t, b[:min(len(b), 1024)]).run()
	})
}
