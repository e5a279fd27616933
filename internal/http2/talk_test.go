package http2

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
)

// talk is a client and a server that answers each request with its body, over a network that
// delivers in pieces. Both keep what they get until they consume it.
type talk struct {
	t              *testing.T
	client, server *side
	requests       []*exchange
	random         *rand.Rand
}

// side is one end of a talk.
type side struct {
	m        *Machine
	arriving []byte // sent by the other side, and not received
	leftover []byte // the beginning of a frame
}

// exchange is a request and its response, as both ends see them.
type exchange struct {
	name     string
	at       *Stream // the client's
	served   *Stream // the server's
	send     []byte  // what the client has not sent yet
	body     []byte  // what it sends in all
	ended    bool    // the client has sent all
	got      []byte  // what the server has got
	answered int     // bytes of got that the server has sent back
	complete bool    // the server has got all
	finished bool    // the server has finished
	reply    []byte
	trailer  string
	over     bool // the client has got the end
	reset    bool
	unread   [2]int // bytes that the client and the server have not consumed
}

var small = Config{MaxStreams: 8, MaxHeader: 4 << 10, Window: defaultWindow, ConnWindow: 2 * defaultWindow}

func newTalk(t *testing.T, seed uint64) *talk {
	return &talk{t: t, client: &side{m: NewClient(small)}, server: &side{m: NewServer(small)}, random: rand.New(rand.NewPCG(seed, 1))}
}

// open begins a request with a body of n bytes.
func (k *talk) open(n int) {
	x := &exchange{name: strconv.Itoa(len(k.requests)), send: make([]byte, n)}
	for i := range x.send {
		x.send[i] = byte(k.random.Uint32())
	}
	x.body = x.send
	fields := []Field{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: "/echo/" + x.name}, {Name: "n", Value: fmt.Sprint(k.random.IntN(9))}}
	if k.random.IntN(2) == 0 {
		fields = append(fields, Field{Name: "content-length", Value: strconv.Itoa(n)})
	}
	if x.at = k.client.m.Open(fields, n == 0); x.at == nil {
		return
	}
	x.at.Owner, x.ended = x, n == 0
	k.requests = append(k.requests, x)
}

// upload sends some of a body.
func (k *talk) upload(x *exchange, most int) {
	if x.reset || x.ended {
		return
	}
	n := min(len(x.send), most)
	if n == len(x.send) && k.random.IntN(2) == 0 {
		k.client.m.Finish(x.at, x.send, nil)
		x.send, x.ended = nil, true
		return
	}
	x.send = x.send[k.client.m.Data(x.at, x.send[:n]):]
}

// answer sends back some of what the server has got.
func (k *talk) answer(x *exchange, most int) {
	st, m := x.served, k.server.m
	if st == nil || x.finished || x.reset {
		return
	}
	m.Header(st, []Field{{Name: ":status", Value: "200"}, {Name: "name", Value: x.name}}, false)
	if x.complete {
		m.Finish(st, x.got[x.answered:], []Field{{Name: "got", Value: strconv.Itoa(len(x.got))}})
		x.finished = true
		m.Done(st)
		return
	}
	x.answered += m.Data(st, x.got[x.answered:min(len(x.got), x.answered+most)])
}

// consume says that a side has read n bytes of a body.
func (k *talk) consume(x *exchange, who, n int) {
	n = min(n, x.unread[who])
	x.unread[who] -= n
	if who == 0 {
		k.client.m.Consumed(x.at, n)
	} else if x.served != nil {
		k.server.m.Consumed(x.served, n)
	}
}

// write moves what one side has to write onto the network.
func write(from, to *side) {
	to.arriving = append(to.arriving, from.m.Output()...)
	from.m.Take(from.m.Output())
	from.m.Pump()
}

// deliver gives a side the next n bytes that arrive, at most.
func (k *talk) deliver(s *side, n int) {
	n = min(n, len(s.arriving))
	s.leftover = append(s.leftover, s.arriving[:n]...)
	s.arriving = s.arriving[n:]
	used, events, err := s.m.Receive(s.leftover)
	if err != nil {
		k.t.Fatalf("%v", err)
	}
	for _, ev := range events {
		if s == k.server {
			k.serve(ev)
		} else {
			k.hear(ev)
		}
	}
	s.leftover = append([]byte(nil), s.leftover[used:]...)
}

// serve handles an event of the server.
func (k *talk) serve(ev Event) {
	if ev.Kind == Headed {
		for _, x := range k.requests {
			if ev.Block.Path == "/echo/"+x.name {
				ev.Stream.Owner, x.served = x, ev.Stream
			}
		}
		ev.Block.Free()
	}
	if ev.Stream == nil {
		return
	}
	x := ev.Stream.Owner.(*exchange)
	switch ev.Kind {
	case Body:
		x.got = append(x.got, ev.Data...)
		x.unread[1] += len(ev.Data)
	case Reset:
		x.reset = true
		k.server.m.Done(ev.Stream)
	}
	x.complete = x.complete || ev.End
}

// hear handles an event of the client.
func (k *talk) hear(ev Event) {
	if ev.Stream == nil {
		return
	}
	x := ev.Stream.Owner.(*exchange)
	switch ev.Kind {
	case Headed:
		if ev.Block.Status != 200 || len(ev.Block.Fields) != 1 || ev.Block.Fields[0].Value != x.name {
			k.t.Errorf("request %s gets the header %v", x.name, ev.Block)
		}
		ev.Block.Free()
	case Body:
		x.reply = append(x.reply, ev.Data...)
		x.unread[0] += len(ev.Data)
	case Trailed:
		x.trailer = ev.Block.Fields[0].Value
		ev.Block.Free()
	case Reset:
		x.reset = true
	}
	x.over = x.over || ev.End
}

// play lets the script decide what happens next; what it says does not matter, only that all that can
// happen does.
func (k *talk) play(script []byte) {
	for _, op := range script {
		var x *exchange
		if len(k.requests) > 0 {
			x = k.requests[k.random.IntN(len(k.requests))]
		}
		n := 1 << (op >> 4)
		switch op % 16 {
		case 0, 1:
			k.open(n * k.random.IntN(4))
		case 2:
			write(k.client, k.server)
		case 3:
			write(k.server, k.client)
		case 4, 5:
			k.deliver(k.server, 4*n)
		case 6, 7:
			k.deliver(k.client, 4*n)
		}
		if x == nil {
			continue
		}
		switch op % 16 {
		case 8, 9:
			k.upload(x, 4*n)
		case 10, 11:
			k.answer(x, 4*n)
		case 12:
			k.consume(x, 0, n)
		case 13:
			k.consume(x, 1, n)
		case 14:
			if !x.over && !x.reset && op>>4 == 3 {
				k.client.m.Cancel(x.at, Cancel)
				x.reset = true
			}
		}
	}
}

// end lets all go on until nothing changes, and compares.
func (k *talk) end() {
	for range 10_000 {
		for _, x := range k.requests {
			k.upload(x, 1<<20)
			k.answer(x, 1<<20)
			k.consume(x, 0, 1<<20)
			k.consume(x, 1, 1<<20)
		}
		write(k.client, k.server)
		write(k.server, k.client)
		k.deliver(k.server, 1<<20)
		k.deliver(k.client, 1<<20)
		if !k.busy() {
			break
		}
	}
	for _, x := range k.requests {
		k.consume(x, 0, 1<<20)
		k.consume(x, 1, 1<<20)
		switch {
		case x.reset:
		case !x.over:
			k.t.Errorf("request %s of %d bytes is not over: %d sent back of %d, complete %v", x.name, len(x.body), x.answered, len(x.got), x.complete)
		case !bytes.Equal(x.got, x.body) || !bytes.Equal(x.reply, x.body) || x.trailer != strconv.Itoa(len(x.body)):
			k.t.Errorf("request %s: %d bytes sent, %d got, %d came back, trailer %q", x.name, len(x.body), len(x.got), len(x.reply), x.trailer)
		}
	}
	for _, s := range []*side{k.client, k.server} {
		if m := s.m; m.Streams() != 0 || m.live != 0 || m.undone != 0 || m.opened != 0 || len(m.blocked) != 0 {
			k.t.Errorf("at the end: %d streams, %d of the peer, %d undone, %d of its own, %d wait", m.Streams(), m.live, m.undone, m.opened, len(m.blocked))
		}
		if m := s.m; m.recv+int64(m.credit) != int64(m.cfg.ConnWindow) {
			k.t.Errorf("at the end the connection's window is %d with %d consumed, want %d", m.recv, m.credit, m.cfg.ConnWindow)
		}
	}
}

func (k *talk) busy() bool {
	for _, x := range k.requests {
		if !x.reset && !x.over {
			return true
		}
	}
	return len(k.client.arriving)+len(k.server.arriving)+len(k.client.m.Output())+len(k.server.m.Output()) > 0
}

// Whatever the order of events, every message arrives as it was sent, and nothing is left.
func TestTalks(t *testing.T) {
	for seed := range uint64(300) {
		k := newTalk(t, seed)
		script := make([]byte, 400)
		for i := range script {
			script[i] = byte(k.random.Uint32())
		}
		k.play(script)
		k.end()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzTalk(f *testing.F) {
	f.Add(uint64(1), []byte("\x10\x02\x04\x28\x02\x04\x0a\x03\x06"))
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		k := newTalk(t, seed)
		k.play(script[:min(len(script), 2000)])
		k.end()
	})
}
