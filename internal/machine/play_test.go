package machine

import (
	"cmp"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/wire"
)

var writePlays = flag.Bool("write-plays", false, "write what happens into the plays in testdata/plays, to be read before it is committed")

// A play is a conversation of a machine with a peer, as text. A line is a command: a frame
// from the peer, or what this side does. The indented lines below it are what follows: events,
// and the frames that are written. A line that begins with # is a comment.
//
// A call's number is written index:generation, a message "in quotes" or as x*70000. Words after
// them are flags and fields, in any order; bytes= is what a frame carries, in hexadecimal.
//
//	peer open=N window=N conn=N message=N     the peer's settings; first, if at all
//	own open=N window=N conn=N message=N      this side's
//	< FRAME …                                 a frame from the peer
//	call NAME METHOD MESSAGE [timeout=D] [oneway] [stream]
//	leave NAME                                its caller gives up
//	reply ID MESSAGE [code=N]                 a method returns
//	accept ID                                 a method accepts its stream
//	send ID MESSAGE, receive ID, close ID     what either side does with a stream
//	time D                                    so much time passes
//	hold, write                               nothing is written until "write"
//	memory, grant ID                          large requests wait for memory; one gets it
//	drain, lose, end                          this side drains; the connection is lost, or ended here
//	retire                                    this side makes no more calls
//	ping N                                    this side asks whether the peer lives
//	hung                                      it does not answer: calls without a deadline are given up
//	woken                                     this process stood still for a while
//	age D                                     the next frames arrived at this host so long ago
//	link N D                                  a write of N bytes took so long
//	state                                     what the machine says of itself
type play struct {
	t    *testing.T
	m    *Machine
	own  wire.Settings
	peer wire.Settings
	now  int64
	held bool

	reserves bool
	out      strings.Builder

	calls    map[string]*Call
	nameOf   map[*Call]string
	running  map[wire.Stream]*Request
	metadata map[*Request]tandem.Metadata
	ended    map[*Request]bool // their callers have canceled them
}

// TestPlays performs every play in testdata/plays, and compares what follows each command with the
// text of the file.
func TestPlays(t *testing.T) {
	files, err := filepath.Glob("testdata/plays/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no plays: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := newPlay(t).perform(string(text))
			if *writePlays {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got != string(text) {
				t.Errorf("the play differs from its file:\n%s", difference(string(text), got))
			}
		})
	}
}

func newPlay(t *testing.T) *play {
	own := rawSettings()
	own.Codecs = []string{"raw", "other"}
	return &play{
		t: t, own: own, peer: rawSettings(), now: int64(time.Hour),
		calls: map[string]*Call{}, nameOf: map[*Call]string{}, running: map[wire.Stream]*Request{}, metadata: map[*Request]tandem.Metadata{}, ended: map[*Request]bool{},
	}
}

// perform plays the commands of a text, and returns it with what has followed them.
func (p *play) perform(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "  ") {
			continue // what followed when it was written
		}
		p.out.WriteString(line + "\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		w := words(line)
		if w[0] != "peer" && w[0] != "own" && w[0] != "memory" && p.m == nil {
			p.start()
		}
		p.command(w)
		if p.m != nil && !p.held {
			p.write()
		}
	}
	return p.out.String()
}

func (p *play) start() {
	p.m = machineOf(p.own, p.peer, 10*time.Second, table{
		"echo": {}, "talk": streaming(), "small": {MaxMessage: 100}, "guarded": {Guarded: true, MaxMessage: 100}, "quick": {Timeout: time.Second},
	})
	p.m.Reserves = p.reserves
}

// factf adds a line to what has followed the command.
func (p *play) factf(format string, args ...any) {
	fmt.Fprintf(&p.out, "  "+format+"\n", args...)
}

func (p *play) command(w []string) {
	args := w[1:]
	switch w[0] {
	case "peer":
		settings(p.t, &p.peer, args)
	case "own":
		settings(p.t, &p.own, args)
	case "<":
		p.frame(args)
	case "call":
		p.call(args)
	case "leave":
		p.m.Leave(p.calls[args[0]])
	case "reply":
		p.reply(args)
	case "accept":
		p.m.Accept(p.running[id(p.t, args[0])])
	case "send":
		p.send(p.stream(args[0]), message(p.t, args[1]))
	case "receive":
		p.receive(p.stream(args[0]))
	case "close":
		p.m.CloseSend(p.stream(args[0]))
	case "time":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			p.t.Fatal(err)
		}
		p.now += int64(d)
		for _, stale := range p.m.StaleRequests(p.now, 0) {
			p.m.Drop(stale.Request, cmp.Or(stale.Err, refused(tandem.ResourceExhausted, "no memory")))
		}
		p.over(p.m.Expire(p.now))
	case "memory":
		p.reserves = true
	case "grant":
		p.m.Grant(p.m.serving(id(p.t, args[0])))
	case "hold":
		p.held = true
	case "write":
		p.held = false
	case "drain":
		p.m.Drain("going")
	case "lose":
		p.over(p.m.Lost(errors.New("cut"), p.m.taken, "the connection was cut"))
	default:
		p.rarely(w[0], args)
	}
}

// rarely performs the commands that few plays use.
func (p *play) rarely(command string, args []string) {
	switch command {
	case "end":
		p.over(p.m.End(errors.New("cut"), p.m.taken, "the connection was cut"))
		p.factf("%d streams of ours are over", len(p.m.Gone()))
	case "retire":
		if !p.m.Retire() {
			p.factf("no more calls could be made before")
		}
	case "ping":
		n, err := strconv.ParseUint(args[0], 10, 8)
		if err != nil {
			p.t.Fatal(err)
		}
		end := p.m.Ping([8]byte{byte(n)})
		p.factf("written after %d bytes", end)
	case "hung":
		over, waits := p.m.GiveUp(p.m.taken, func(c *Call, unsent bool) *tandem.Error {
			if c.Expires != 0 && !unsent {
				return nil
			}
			return &tandem.Error{Code: tandem.Unavailable, Message: "no answer to a ping", NotExecuted: unsent}
		})
		p.over(over)
		if waits {
			p.factf("others wait")
		}
	case "woken":
		p.m.Awoke()
	case "age":
		p.m.SetAge(int64(duration(p.t, []string{"timeout=" + args[0]})))
	case "link":
		n, err := strconv.Atoi(args[0])
		if err != nil {
			p.t.Fatal(err)
		}
		p.m.Measure(n, duration(p.t, []string{"timeout=" + args[1]}).Seconds())
	case "state":
		p.state()
	default:
		p.t.Fatalf("no command %q", command)
	}
}

// state adds what the machine says of itself.
func (p *play) state() {
	m := p.m
	p.factf("ours: %d open, %d queued, %d sent; theirs: %d running, %d arriving, %d accepted", m.OpenCalls(), m.QueuedCalls(), m.Sent(), m.Running(), m.Arriving(), m.Accepted())
	var is []string
	for _, w := range []struct {
		word string
		is   bool
	}{
		{"busy", m.IsBusy()}, {"all answered", m.AllAnswered()}, {"takes calls", m.TakesCalls()}, {"draining", m.IsDraining()},
		{"away", m.Away() != nil}, {"closed", m.Closed()}, {"output", m.HasOutput()}, {"in time", m.HasRequestWithin(p.now)},
	} {
		if w.is {
			is = append(is, w.word)
		}
	}
	p.factf("%s", strings.Join(is, ", "))
	if at := m.NextDeadline(); at != 0 {
		p.factf("no deadline within %v", time.Duration(at-p.now))
	}
}

// frame has the machine receive a frame: its type, the number of its call except for ping, pong
// and goaway, and what it carries.
func (p *play) frame(w []string) {
	kind, known := typeNames[w[0]]
	if !known {
		p.t.Fatalf("no frame %q", w[0])
	}
	h, args := wire.Header{Type: kind}, w[1:]
	if h.Type < wire.TypePing {
		h.Stream, args = id(p.t, args[0]), args[1:]
	}
	for _, word := range args {
		for _, f := range flagNames {
			if word == f.name {
				h.Flags |= f.flag
			}
		}
	}
	fixed := inOrder[h.Type]
	if option(args, "bytes") != "" {
		fixed = 0
	}
	checkWords(p.t, args[fixed:])
	payload := p.payload(h.Type, args)
	h.Length = len(payload)
	in := incoming()
	event, err := p.m.Receive(h, payload, p.now, in)
	if err != nil {
		p.factf("error: %v", err)
		return
	}
	p.happened(event, in)
	p.m.Promote(p.now)
}

// payload returns what a frame carries: what the words say, or the bytes after bytes=.
func (p *play) payload(kind wire.Type, args []string) []byte {
	if text := option(args, "bytes"); text != "" {
		b, err := hex.DecodeString(text)
		if err != nil {
			p.t.Fatal(err)
		}
		return b
	}
	switch kind {
	case wire.TypeRequest:
		r := &wire.Request{
			Name: wire.Name{Text: []byte(args[0]), Define: option(args, "number") == "new"}, Timeout: duration(p.t, args), Size: number(p.t, args, "size"),
			Codec: uint8(number(p.t, args, "codec")), Compressor: uint8(number(p.t, args, "compressor")),
		}
		if n, err := strconv.Atoi(args[0]); err == nil {
			r.Name = wire.Name{Number: n}
		}
		if key, value, ok := strings.Cut(option(args, "metadata"), ":"); ok {
			md, err := wire.AppendMetadata(nil, tandem.Metadata{key: {value}})
			if err != nil {
				p.t.Fatal(err)
			}
			r.Metadata = md
		}
		return append(wire.AppendRequest(nil, r), message(p.t, args[1])...)
	case wire.TypeResponse:
		r := &wire.Response{Size: number(p.t, args, "size")}
		if code := number(p.t, args, "code"); code > 0 {
			r.Status = EncodeStatus(&tandem.Error{Code: tandem.Code(code), Message: "bad"})
		}
		return append(wire.AppendResponse(nil, r), message(p.t, args[0])...)
	case wire.TypeData:
		return message(p.t, args[0])
	case wire.TypeReset:
		return EncodeStatus(&tandem.Error{Code: tandem.Code(number(p.t, args, "code")), Message: "bad"})
	case wire.TypeWindow:
		n, err := strconv.ParseUint(args[0], 10, 32)
		if err != nil {
			p.t.Fatal(err)
		}
		return wire.AppendWindow(nil, 0, 0, uint32(n))[wire.HeaderLen:]
	case wire.TypePing, wire.TypePong:
		return []byte{byte(number(p.t, args, "n")), 0, 0, 0, 0, 0, 0, 0}
	case wire.TypeGoAway:
		return wire.AppendGoAway(nil, wire.GoAway{Accepted: number(p.t, args, "accepted"), Reason: wire.Reason(number(p.t, args, "reason")), Message: "bye"})[wire.HeaderLen:]
	}
	return nil
}

// happened adds what the session would have to do for an event.
func (p *play) happened(e Event, c *Incoming) {
	if e.Request == c.Request {
		p.metadata[c.Request] = c.Metadata
	}
	switch in := e.Request; e.Kind {
	case Run:
		if c.Kind == tandem.Streaming && c.Refusal == nil {
			p.m.InitStream(new(Stream), nil, in, c.Method.MaxMessage)
		}
		p.running[in.ID] = in
		p.factf("run %s %s %s%s%s", showID(in.ID), in.Name, showMessage(requestOf(in)), timeLeft(in.Expires, p.now), moreOf(in, p.metadata[in]))
	case Canceled:
		p.ended[in] = true
	case Done:
		p.over([]*Call{e.Call})
	case Pong:
		p.factf("pong n=%d", e.Ping)
	case Away:
		p.factf("away")
		p.over(p.m.Lost(nil, p.m.taken, "the peer is draining"))
	}
}

// over adds how calls of ours ended.
func (p *play) over(list []*Call) {
	for _, c := range list {
		name := p.nameOf[c]
		switch {
		case c.Err != nil:
			p.factf("%s failed: %s", name, showError(c.Err))
		case c.Stream != nil:
			p.factf("%s accepted", name)
		default:
			reply, err := replyOf(c)
			if err != nil {
				p.factf("%s failed: %s", name, showError(tandem.AsError(err)))
				continue
			}
			p.factf("%s answered %s", name, showMessage(reply))
		}
	}
}

// replyOf returns the message or the error that a call was answered with.
func replyOf(c *Call) ([]byte, error) {
	var r wire.Response
	message, err := c.Parse(&r)
	if err != nil {
		return nil, err
	}
	return message, StatusError(r.Status)
}

func (p *play) call(w []string) {
	c := &Call{Method: strings.Trim(w[1], `"`), Codec: cmp.Or(option(w, "codec"), "raw"), Compressor: option(w, "compressor"), Message: message(p.t, w[2])}
	checkWords(p.t, w[3:])
	for _, word := range w[3:] {
		switch word {
		case "oneway":
			c.OneWay = true
		case "stream":
			p.m.InitStream(new(Stream), c, nil, 0)
		}
	}
	if d := duration(p.t, w); d != 0 {
		c.Expires = p.now + int64(d)
	}
	p.calls[w[0]], p.nameOf[c] = c, w[0]
	if err := p.m.Open(c, p.now); err != nil {
		p.factf("%s failed: %s", w[0], showError(err))
	}
}

// reply ends a method that runs.
func (p *play) reply(w []string) {
	in := p.running[id(p.t, w[0])]
	delete(p.running, in.ID)
	checkWords(p.t, w[2:])
	in.Reply = buffer.Get()
	in.Reply.B = append(in.Reply.B, message(p.t, w[1])...)
	var r wire.Response
	if code := number(p.t, w, "code"); code > 0 {
		r.Status = EncodeStatus(&tandem.Error{Code: tandem.Code(code), Message: "bad"})
	}
	if p.ended[in] {
		p.factf("its context had ended")
	}
	p.m.Respond(in, &r, 0)
}

// queueMessage queues a message of a stream as Send does, but leaves the first blocks to Take.
func queueMessage(m *Machine, st *Stream, b []byte) {
	st.sending = &bulk{id: st.ID, flags: st.side | wire.FlagStream, data: b, stream: st}
	m.ring.add(st.sending)
}

// stream returns the stream of a call of ours, by its name, or of the peer's, by its number.
func (p *play) stream(name string) *Stream {
	if c := p.calls[name]; c != nil {
		return c.Stream
	}
	if in := p.running[id(p.t, name)]; in != nil {
		return in.stream
	}
	p.t.Fatalf("no stream %q", name)
	return nil
}

// send queues a message of a stream as Stream.SendMsg does, and does not wait.
func (p *play) send(st *Stream, b []byte) {
	if err := st.SendErr(); err != nil {
		p.factf("not sent: %v", SendError(err))
		return
	}
	queueMessage(p.m, st, b)
}

func (p *play) receive(st *Stream) {
	switch {
	case len(st.queue) > 0:
		p.factf("received %s", showMessage(p.m.Pop(st).Buf.B))
	case st.recvErr != nil:
		p.factf("received the end: %v", st.recvErr)
	default:
		p.factf("nothing to receive")
	}
}

// write adds the frames that the machine writes, until it has none.
func (p *play) write() {
	for b := p.m.Take(); b != nil; b = p.m.Take() {
		for rest := b.B; len(rest) > 0; {
			h, err := wire.ParseHeader(rest)
			if err != nil {
				p.t.Fatal(err)
			}
			p.factf("> %s", showFrame(p.t, h, rest[wire.HeaderLen:wire.HeaderLen+h.Length]))
			rest = rest[wire.HeaderLen+h.Length:]
		}
		b.Put()
	}
}
