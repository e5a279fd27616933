package machine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// Calls that wait to be sent are bounded.
func TestQueueIsBounded(t *testing.T) {
	m := newMachine(nil)
	m.calls.limit = 0 // nothing can be sent
	open := func() *tandem.Error {
		p := new(Call)
		p.Method, p.Codec = "m", "raw"
		return m.Open(p, 1)
	}
	m.queue = make([]*Call, maxQueued-1)
	if err := open(); err != nil {
		t.Errorf("the last that fits: %v", err)
	}
	if err := open(); err == nil || err.Code != tandem.ResourceExhausted || !err.NotExecuted {
		t.Errorf("one more: %v", err)
	}
	if len(m.queue) != maxQueued {
		t.Errorf("%d calls are queued, limit %d", len(m.queue), maxQueued)
	}
}

// Calls that were given up while they waited, by their callers or by their deadlines,
// make room for others as soon as they are a quarter of a full queue. Those that still wait
// keep their order.
func TestGivenUpCallsMakeRoomInTheQueue(t *testing.T) {
	m := newMachine(nil)
	m.calls.limit = 0 // nothing can be sent
	var all []*Call
	open := func(until int64) *tandem.Error {
		p := new(Call)
		p.Method, p.Codec, p.Expires = "m", "raw", until
		all = append(all, p)
		return m.Open(p, 1)
	}
	const quarter = maxQueued / 4
	for i := range maxQueued {
		until := int64(time.Hour)
		if i%8 == 1 {
			until = int64(time.Second)
		}
		if err := open(until); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	for i := 0; i < maxQueued; i += 8 {
		m.Leave(all[i])
	}
	if err := open(int64(time.Hour)); err == nil || err.Code != tandem.ResourceExhausted {
		t.Errorf("an eighth has left, which is not worth a search: %v", err)
	}
	if over := m.Expire(int64(time.Minute)); len(over) != quarter/2 || m.vacant != quarter {
		t.Errorf("%d calls have expired, %d have left", len(over), m.vacant)
	}
	for i := range quarter {
		if err := open(int64(time.Hour)); err != nil {
			t.Fatalf("call %d in the place of those that left: %v", i, err)
		}
	}
	if err := open(int64(time.Hour)); err == nil || len(m.queue) != maxQueued || m.vacant != 0 {
		t.Errorf("one more than the queue holds: %v; %d in it, %d have left", err, len(m.queue), m.vacant)
	}
	if m.queue[0] != all[2] || m.queue[6] != all[10] {
		t.Error("those that wait have changed places")
	}
	m.Leave(m.queue[0])
	if m.vacant != 1 {
		t.Errorf("%d have left the full queue, not 1", m.vacant)
	}
	m.calls.limit = 2
	if m.Promote(2); m.vacant != 0 || len(m.queue) != maxQueued-3 || all[3].State != CallOpen {
		t.Errorf("after the first two were sent: %d in the queue, %d of them have left", len(m.queue), m.vacant)
	}
}

// One-way calls take no slot, so there is a separate bound on how many run.
func TestOneWayCallsAreBounded(t *testing.T) {
	const limit = 4
	m := newMachine(table{"m": {}})
	m.Own.MaxOpen = limit
	flags, payload := wire.FlagOneWay|wire.FlagEnd, requestHead("m")
	notify := func() bool {
		h := wire.Header{Length: len(payload), Type: wire.TypeRequest, Flags: flags}
		ev, err := m.Receive(h, payload, 1, incoming())
		if err != nil {
			t.Fatal(err)
		}
		return ev.Kind == Run
	}
	for i := range limit {
		if !notify() {
			t.Fatalf("call %d does not run, limit %d", i+1, limit)
		}
	}
	if notify() {
		t.Errorf("more than %d calls run", limit)
	}
	if m.running != limit || m.accepted != limit+1 {
		t.Errorf("%d run, %d were counted", m.running, m.accepted)
	}
	if m.running--; !notify() {
		t.Error("no call runs after one has ended")
	}
}

// define has the peer define n names of that many bytes, and returns the first
// error.
func define(n, size int, kind string, m *Machine) error {
	for i := range n {
		name := fmt.Sprintf("%0*d", size, i)
		payload := wire.AppendRequest(nil, &wire.Request{Name: wire.Name{Text: []byte(name), Define: kind == "define"}})
		h := wire.Header{Length: len(payload), Type: wire.TypeRequest, Flags: wire.FlagOneWay | wire.FlagEnd}
		if _, err := m.Receive(h, payload, 1, incoming()); err != nil {
			return err
		}
	}
	return nil
}

// The method names that a peer may define are bounded in number and in bytes. Names
// that it sends in full each time are not stored.
func TestReceivedNamesAreBounded(t *testing.T) {
	const longest = wire.MaxNameBytes / wire.MaxName // so many of the longest
	for name, c := range map[string]struct {
		names, size int
		kind        string
		fits        bool
	}{
		"as many as allowed":      {wire.MaxNames, 8, "define", true},
		"one more":                {wire.MaxNames + 1, 8, "define", false},
		"as long as allowed":      {longest, wire.MaxName, "define", true},
		"one more of the longest": {longest + 1, wire.MaxName, "define", false},
		"not to be remembered":    {wire.MaxNames + 1, 8, "literal", true},
	} {
		t.Run(name, func(t *testing.T) {
			err := define(c.names, c.size, c.kind, newMachine(nil))
			if (err == nil) != c.fits || err != nil && !errors.Is(err, wire.ErrViolation) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// A sender keeps to the receiver's limits by itself, and both use the same numbers.
func TestSentNamesKeepTheLimits(t *testing.T) {
	for name, size := range map[string]int{"many": 8, "long": wire.MaxName} {
		t.Run(name, func(t *testing.T) {
			var sent sentNames
			received := new(Machine)
			for range 2 {
				for i := range min(wire.MaxNames, wire.MaxNameBytes/size) + 10 {
					method := fmt.Sprintf("%0*d", size, i)
					got := incoming()
					err := received.resolve(got, sent.reference(method))
					if err != nil || got.Request.Name != method {
						t.Fatalf("name %d became %q, %v", i, got.Request.Name, err)
					}
				}
			}
		})
	}
}

// Of the calls that were sent, those end that a draining peer has not accepted.
func TestGoAwayCountsRequests(t *testing.T) {
	m := newMachine(nil)
	var calls []*Call
	for range 5 {
		p := new(Call)
		p.Method, p.Codec = "m", "raw"
		if err := m.Open(p, 1); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, p)
	}
	m.away = &wire.GoAway{Accepted: 3}
	if over := m.Lost(nil, 1<<40, "draining"); len(over) != 2 || over[0] != calls[3] || over[1] != calls[4] {
		t.Fatalf("%d calls ended", len(over))
	}
	for i, p := range calls {
		if want := i >= 3; (p.Err != nil) != want || want && !p.Err.NotExecuted {
			t.Errorf("call %d: %v", i, p.Err)
		}
	}
}

// A call that its caller has given up leaves its slot when the peer drains and has not accepted it,
// as no answer will come. One that the peer has accepted keeps its slot until the answer.
func TestDrainFreesSlotsOfGivenUpCalls(t *testing.T) {
	m := newMachine(nil)
	for range 3 {
		p := &Call{Method: "m", Codec: "raw"}
		if err := m.Open(p, 1); err != nil {
			t.Fatal(err)
		}
		m.Leave(p)
	}
	if !m.Retire() || m.Lost(nil, 1<<40, "retired") != nil || m.OpenCalls() != 3 {
		t.Fatalf("%d slots are taken when this side makes no more calls, not 3", m.OpenCalls())
	}
	goAway := wire.AppendGoAway(nil, wire.GoAway{Accepted: 1})
	h, err := wire.ParseHeader(goAway)
	if err != nil {
		t.Fatal(err)
	}
	ev, err := m.Receive(h, goAway[wire.HeaderLen:], 1, nil)
	if err != nil || ev.Kind != Away {
		t.Fatalf("%+v, %v", ev, err)
	}
	if over := m.Lost(nil, 1<<40, "draining"); over != nil || m.OpenCalls() != 1 {
		t.Errorf("%d calls ended, %d slots are taken, not 1", len(over), m.OpenCalls())
	}
}
