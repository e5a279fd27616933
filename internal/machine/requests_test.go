package machine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/wire"
)

// receiver is a machine whose peer is the test.
type receiver struct {
	*Machine

	t   *testing.T
	now int64
}

func newReceiver(t *testing.T, methods table) *receiver {
	return &receiver{newMachine(methods), t, int64(time.Hour)}
}

// frame has the machine receive a frame, which must be no violation.
func (r *receiver) frame(typ wire.Type, f wire.Flags, id wire.Stream, payload []byte) (Event, *Incoming) {
	r.t.Helper()
	in := incoming()
	ev, err := r.Receive(wire.Header{Length: len(payload), Type: typ, Flags: f, Stream: id}, payload, r.now, in)
	if err != nil {
		r.t.Fatal(err)
	}
	return ev, in
}

// request has the machine receive a request in one piece.
func (r *receiver) request(id wire.Stream, request wire.Request, message string) (Event, *Incoming) {
	r.t.Helper()
	return r.frame(wire.TypeRequest, wire.FlagEnd, id, append(wire.AppendRequest(nil, &request), message...))
}

// large has the machine receive the first block of a request.
func (r *receiver) large(id wire.Stream, request wire.Request, block int) (Event, *Incoming) {
	r.t.Helper()
	return r.frame(wire.TypeRequest, 0, id, append(wire.AppendRequest(nil, &request), make([]byte, block)...))
}

// written returns the headers of the frames that are to be written.
func (r *receiver) written() []wire.Header {
	r.t.Helper()
	b := r.Take()
	if b == nil {
		return nil
	}
	defer b.Put()
	return headers(r.t, b.B)
}

func named(method string) wire.Name { return wire.Name{Text: []byte(method)} }

const first = wire.Stream(1 << 16) // the number of the first call in the first slot

// What a request says arrives in Incoming and Request, and a response is written for it.
func TestRequest(t *testing.T) {
	r := newReceiver(t, table{"m": {Timeout: time.Minute}})
	r.SetAge(int64(time.Second))
	md, err := wire.AppendMetadata(nil, tandem.Metadata{"k": {"v"}})
	if err != nil {
		t.Fatal(err)
	}
	ev, in := r.request(first, wire.Request{Name: named("m"), Timeout: time.Hour, Attempt: 2, Metadata: md}, "hello")
	q := in.Request
	if ev.Kind != Run || ev.Request != q || string(q.Message) != "hello" || q.Owned != nil || q.Name != "m" || q.ID != first {
		t.Fatalf("%+v of %+v", ev, q)
	}
	if in.Kind != tandem.Unary || in.Attempt != 2 || in.Number >= 0 || in.Refusal != nil || in.Metadata["k"][0] != "v" {
		t.Errorf("the head is %+v", in)
	}
	if want := r.now - int64(time.Second); q.Arrived != want || q.Expires != want+int64(time.Minute) {
		t.Errorf("arrived at %d, expires at %d, and it is %d", q.Arrived, q.Expires, r.now)
	}
	if r.Running() != 1 || !r.IsBusy() || r.AllAnswered() || r.Accepted() != 1 || !r.HasRequestWithin(r.now) || r.HasRequestWithin(q.Expires) {
		t.Errorf("%d run", r.Running())
	}
	q.Reply = buffer.Get()
	q.Reply.B = append(q.Reply.B, "bye"...)
	if over := r.Respond(q, new(wire.Response), 0); !over || r.Running() != 0 || r.IsBusy() {
		t.Errorf("over is %v, %d run", over, r.Running())
	}
	if w := r.written(); len(w) != 1 || w[0].Type != wire.TypeResponse || w[0].Stream != first || !r.AllAnswered() {
		t.Errorf("written: %+v", w)
	}
}

// The method of a name is looked up once for each number, and again while the method does not exist.
func TestNamesAreLookedUpOnce(t *testing.T) {
	names := lookups{table: table{"there": {}}, counts: map[string]int{}}
	r := newReceiver(t, nil)
	r.Names = &names
	ask := func(name wire.Name, want bool) {
		t.Helper()
		ev, in := r.request(first, wire.Request{Name: name}, "")
		if (in.Method != nil) != want || (ev.Kind == Run) != want {
			t.Errorf("%q: %+v, %+v", in.Request.Name, ev, in)
		}
		if ev.Kind == Run {
			r.Respond(in.Request, new(wire.Response), 0)
		}
	}
	ask(wire.Name{Text: []byte("there"), Define: true}, true)
	ask(wire.Name{Text: []byte("later"), Define: true}, false)
	for range 3 {
		ask(wire.Name{Number: 0}, true)
		ask(wire.Name{Number: 1}, false)
		ask(named("there"), true)
	}
	names.table["later"] = &Method{}
	ask(wire.Name{Number: 1}, true)
	ask(wire.Name{Number: 1}, true)
	if names.counts["there"] != 4 || names.counts["later"] != 5 {
		t.Errorf("looked up %v", names.counts)
	}
	if names.numbers["there"] != -1 || names.numbers["later"] != 1 {
		t.Errorf("with the numbers %v", names.numbers)
	}
}

// lookups counts the calls of Lookup, and keeps the last number of each name.
type lookups struct {
	table

	counts, numbers map[string]int
}

func (l *lookups) Lookup(name string, number int) *Method {
	if l.numbers == nil {
		l.numbers = map[string]int{}
	}
	l.counts[name]++
	l.numbers[name] = number
	return l.table[name]
}

// A request that is refused leaves nothing, unless interceptors are to see it.
func TestRefusedRequests(t *testing.T) {
	for name, c := range map[string]struct {
		method  *Method
		request wire.Request
		message string
		text    string
	}{
		"no method":       {nil, wire.Request{}, "", "no method"},
		"too large":       {&Method{MaxMessage: 3}, wire.Request{}, "four", "takes at most 3"},
		"a stream":        {streaming(), wire.Request{}, "", "OpenStream"},
		"codec":           {&Method{}, wire.Request{Codec: 7}, "", "no codec number 7"},
		"compressor":      {&Method{}, wire.Request{Compressor: 7}, "", "no compressor number 7"},
		"broken metadata": {&Method{}, wire.Request{Metadata: []byte{200}}, "", "metadata"},
	} {
		t.Run(name, func(t *testing.T) {
			methods := table{}
			if c.method != nil {
				methods["m"] = c.method
			}
			r := newReceiver(t, methods)
			c.request.Name = named("m")
			ev, _ := r.request(first, c.request, c.message)
			if ev != (Event{}) || r.Running() != 0 || r.Counts().Slots != 0 {
				t.Errorf("%+v, %+v", ev, r.Counts())
			}
			if w := r.written(); len(w) != 1 || w[0].Type != wire.TypeResponse {
				t.Errorf("written: %+v", w)
			}
			if c.method == nil {
				return
			}
			c.method.Guarded = true
			ev, in := r.request(first, c.request, c.message)
			if ev.Kind != Run || in.Refusal == nil || !strings.Contains(in.Refusal.Message, c.text) || r.written() != nil {
				t.Errorf("with interceptors: %+v, %+v", ev, in)
			}
		})
	}
}

// Memory of metadata is used again only if the method allows that.
func TestMemoryOfMetadata(t *testing.T) {
	md, err := wire.AppendMetadata(nil, tandem.Metadata{"k": {"v"}})
	if err != nil {
		t.Fatal(err)
	}
	r := newReceiver(t, table{"kept": {}, "reused": {Reuse: true}})
	if _, in := r.request(first, wire.Request{Name: named("kept"), Metadata: md}, ""); in.Request.Pairs != nil || in.Metadata == nil {
		t.Error("memory that the handler keeps would be used again")
	}
	if _, in := r.request(first+1, wire.Request{Name: named("reused"), Metadata: md}, ""); in.Request.Pairs == nil || in.Metadata == nil {
		t.Error("memory that may be used again is not kept")
	}
}

// Until its memory is granted, no credit is given for a large request; one without memory for too
// long is stale.
func TestLargeRequestsWaitForMemory(t *testing.T) {
	r := newReceiver(t, table{"m": {}})
	r.Reserves = true
	ev, in := r.large(first, wire.Request{Name: named("m"), Size: 100_000}, 10)
	q := in.Request
	if ev.Kind != Arrives || ev.Request != q || !q.IsArriving() || q.Have() != 10 || q.Whole() < 100_000 || r.Arriving() != 1 || r.written() != nil {
		t.Fatalf("%+v, %d arriving", ev, r.Arriving())
	}
	if r.StaleRequests(r.now, 1) != nil || r.StaleRequests(r.now+int64(r.Stall), 1) != nil {
		t.Error("stale at once")
	}
	if stale := r.StaleRequests(r.now+int64(r.Stall)+1, 2); stale != nil {
		t.Error("stale though another wait has been served meanwhile")
	}
	late := r.now + 2*int64(r.Stall) + 2
	if stale := r.StaleRequests(late, 2); len(stale) != 1 || stale[0].Request != q || stale[0].Err != nil {
		t.Errorf("stale: %+v", stale)
	}
	r.Grant(q)
	if w := r.written(); len(w) != 1 || w[0].Type != wire.TypeWindow {
		t.Errorf("written: %+v", w)
	}
	r.Drop(q, &tandem.Error{Code: tandem.ResourceExhausted})
	if w := r.written(); len(w) != 1 || w[0].Type != wire.TypeResponse || q.IsArriving() || r.Counts() != newMachine(nil).Counts() {
		t.Errorf("written: %+v, left over: %+v", w, r.Counts())
	}
}

// A request of which nothing more arrives is stale, and so is one whose deadline has passed.
func TestStaleRequests(t *testing.T) {
	r := newReceiver(t, table{"m": {}})
	_, dated := r.large(first, wire.Request{Name: named("m"), Size: 100_000, Timeout: time.Second}, 10)
	_, open := r.large(first+1, wire.Request{Name: named("m"), Size: 100_000}, 10)
	if stale := r.StaleRequests(r.now, 0); stale != nil {
		t.Fatalf("at once: %+v", stale)
	}
	stale := r.StaleRequests(r.now+int64(time.Second), 0)
	if len(stale) != 1 || stale[0].Request != dated.Request || stale[0].Err.Code != tandem.DeadlineExceeded {
		t.Fatalf("after the deadline: %+v", stale)
	}
	r.Drop(dated.Request, stale[0].Err)
	if stale := r.StaleRequests(r.now+int64(r.Stall)-1, 0); stale != nil {
		t.Errorf("before the stall timeout: %+v", stale)
	}
	r.Awoke() // nothing could arrive
	if stale := r.StaleRequests(r.now+int64(r.Stall)+1, 0); stale != nil {
		t.Errorf("after a sleep: %+v", stale)
	}
	stale = r.StaleRequests(r.now+3*int64(r.Stall), 0)
	if len(stale) != 1 || stale[0].Request != open.Request || !strings.Contains(stale[0].Err.Message, "nothing more") {
		t.Errorf("after the stall timeout: %+v", stale)
	}
}

// A cancel of a call that runs is an event; one of a call that arrives ends it; one of a response that
// is sent in blocks stops them.
func TestCancels(t *testing.T) {
	r := newReceiver(t, table{"m": {}})
	_, runs := r.request(first, wire.Request{Name: named("m")}, "")
	if ev, _ := r.frame(wire.TypeCancel, 0, first, nil); ev.Kind != Canceled || ev.Request != runs.Request {
		t.Errorf("of one that runs: %+v", ev)
	}
	_, arrives := r.large(first+1, wire.Request{Name: named("m"), Size: 100_000}, 10)
	if ev, _ := r.frame(wire.TypeCancel, 0, first+1, nil); ev.Kind != Dropped || ev.Request != arrives.Request || r.Arriving() != 0 {
		t.Errorf("of one that arrives: %+v", ev)
	}
	_, answers := r.request(first+2, wire.Request{Name: named("m")}, "")
	answers.Request.Reply = buffer.Get()
	answers.Request.Reply.B = append(answers.Request.Reply.B, make([]byte, 200_000)...)
	if r.Respond(answers.Request, new(wire.Response), 0) || r.Counts().Sending != 1 {
		t.Error("a large response is sent at once")
	}
	if ev, _ := r.frame(wire.TypeCancel, 0, first+2, nil); ev != (Event{}) || r.Counts().Sending != 0 {
		t.Errorf("of one that is answered: %+v", ev)
	}
	if ev, _ := r.frame(wire.TypeCancel, 0, first+3, nil); ev != (Event{}) {
		t.Errorf("of one that is not open: %+v", ev)
	}
}

// Pings are answered, and a pong with a number is an event. Too many pings are a flood.
func TestPings(t *testing.T) {
	r := newReceiver(t, nil)
	if end := r.Ping([8]byte{1}); end == 0 || r.QueuedBytes() == 0 || !r.HasOutput() || len(r.written()) != 1 || r.Taken() != end {
		t.Errorf("the ping ends at %d, %d bytes were taken", end, r.Taken())
	}
	if ev, _ := r.frame(wire.TypePong, 0, 0, []byte{5, 0, 0, 0, 0, 0, 0, 0}); ev.Kind != Pong || ev.Ping != 5 {
		t.Errorf("%+v", ev)
	}
	if ev, _ := r.frame(wire.TypePong, 0, 0, make([]byte, 8)); ev != (Event{}) {
		t.Errorf("a pong of no ping: %+v", ev)
	}
	for range maxPongs {
		r.frame(wire.TypePing, 0, 0, make([]byte, 8))
	}
	ping := wire.Header{Type: wire.TypePing, Length: 8}
	if _, err := r.Receive(ping, make([]byte, 8), r.now, nil); !errors.Is(err, ErrFlood) {
		t.Errorf("one more: %v", err)
	}
	if got := len(r.written()); got != maxPongs {
		t.Errorf("%d pongs, want %d", got, maxPongs)
	}
	if r.Frames() != maxPongs+3 {
		t.Errorf("%d frames", r.Frames())
	}
}
