package session

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// idleStream receives nothing until its call or its connection ends.
func idleStream() *Target {
	return streaming(func(st tandem.MessageStream) error {
		<-st.Context().Done()
		return nil
	})
}

// Streams that each keep to their own window must together keep to the
// connection's window.
func TestConnectionWindow(t *testing.T) {
	const window, message = 64 << 10, 20_000 // a stream's would hold three of them
	for name, c := range map[string]struct {
		streams int
		ends    bool
	}{"within": {window / message, false}, "beyond": {window/message + 1, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := serverConfig(methods{"idle": idleStream()})
				cfg.Settings.ConnWindow, cfg.Settings.StreamWindow = window, window
				s, peer := acceptRaw(t, cfg)
				for i := range c.streams {
					id := wire.MakeStream(uint16(i), 1)
					send(t, peer, rawFrame(wire.TypeRequest, wire.FlagStream|wire.FlagEnd, id, requestHead("idle")))
					send(t, peer, rawFrame(wire.TypeData, wire.FlagStream|wire.FlagEnd, id, make([]byte, message)))
				}
				synctest.Wait()
				err := s.Err()
				if (err != nil) != c.ends {
					t.Fatalf("ended with %v", err)
				}
				if c.ends && (!errors.Is(err, wire.ErrViolation) || !strings.Contains(err.Error(), "connection's window")) {
					t.Errorf("ended with %v", err)
				}
			})
		})
	}
}

// Calls that wait to be sent are bounded.
func TestQueueIsBounded(t *testing.T) {
	m := newMachine(serverConfig(nil))
	m.calls.limit = 0 // nothing can be sent
	open := func() *tandem.Error {
		p := new(Call)
		p.Method, p.Codec = "m", "raw"
		return m.open(p, 1)
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
	m := newMachine(serverConfig(nil))
	m.calls.limit = 0 // nothing can be sent
	var all []*Call
	open := func(until int64) *tandem.Error {
		p := new(Call)
		p.Method, p.Codec, p.Expires = "m", "raw", until
		all = append(all, p)
		return m.open(p, 1)
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
		m.leave(all[i])
	}
	if err := open(int64(time.Hour)); err == nil || err.Code != tandem.ResourceExhausted {
		t.Errorf("an eighth has left, which is not worth a search: %v", err)
	}
	if over := m.expire(int64(time.Minute)); len(over) != quarter/2 || m.vacant != quarter {
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
	m.leave(m.queue[0])
	if m.vacant != 1 {
		t.Errorf("%d have left the full queue, not 1", m.vacant)
	}
	m.calls.limit = 2
	if m.promote(2); m.vacant != 0 || len(m.queue) != maxQueued-3 || all[3].State != CallOpen {
		t.Errorf("after the first two were sent: %d in the queue, %d of them have left", len(m.queue), m.vacant)
	}
}

// One-way calls take no slot, so there is a separate bound on how many run.
func TestOneWayCallsAreBounded(t *testing.T) {
	const limit = 4
	cfg := serverConfig(methods{"m": echo()})
	cfg.Settings.MaxOpen = limit
	m := newMachine(cfg)
	flags, payload := wire.FlagOneWay|wire.FlagEnd, requestHead("m")
	notify := func() bool {
		h := wire.Header{Length: len(payload), Type: wire.TypeRequest, Flags: flags}
		ev, err := m.receive(h, payload, 1)
		if err != nil {
			t.Fatal(err)
		}
		return ev.run != nil
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
func define(n, size int, kind string, m *machine) error {
	for i := range n {
		name := fmt.Sprintf("%0*d", size, i)
		payload := wire.AppendRequest(nil, &wire.Request{Name: wire.Name{Text: []byte(name), Define: kind == "define"}})
		h := wire.Header{Length: len(payload), Type: wire.TypeRequest, Flags: wire.FlagOneWay | wire.FlagEnd}
		if _, err := m.receive(h, payload, 1); err != nil {
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
			err := define(c.names, c.size, c.kind, newMachine(serverConfig(nil)))
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
			var received receivedNames
			for range 2 {
				for i := range min(wire.MaxNames, wire.MaxNameBytes/size) + 10 {
					method := fmt.Sprintf("%0*d", size, i)
					got, err := received.resolve(sent.reference(method), nil)
					if err != nil || got.name != method {
						t.Fatalf("name %d became %v, %v", i, got, err)
					}
				}
			}
		})
	}
}
