package session

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// closings counts what OnClose reports on both sides.
type closings struct {
	mu      sync.Mutex
	reasons map[*Env][]error
}

func (c *closings) option(client, server *Config) {
	note := func(s *Session, err error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.reasons[s.env] = append(c.reasons[s.env], err)
	}
	client.OnClose, server.OnClose = note, note
}

// However a connection ends, each side reports it exactly once, with a reason.
func TestCloseIsReportedOnce(t *testing.T) {
	for name, end := range map[string]func(p *pair){
		"by the client": func(p *pair) { p.client.Close() },
		"by the server": func(p *pair) { p.server.Close() },
		"by both": func(p *pair) {
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(p.client.Close)
				wg.Go(p.server.Close)
			}
			wg.Wait()
		},
		"drained": func(p *pair) { _ = p.server.Drain(context.Background(), "test") },
		"by a violation": func(p *pair) {
			_, _ = p.client.conn.Write(wire.AppendHeader(nil, wire.Header{Type: wire.TypeResponse, Stream: 1}))
		},
		"by a lost connection": func(p *pair) { _ = p.client.conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(t *testing.T, dial func() (net.Conn, net.Conn)) {
				c := &closings{reasons: map[*Env][]error{}}
				p := newPair(t, dial, methods{"echo": echo()}, c.option)
				if _, err := p.call(context.Background(), "echo", []byte("x")); err != nil {
					t.Fatal(err)
				}
				end(p)
				<-p.client.Done()
				<-p.server.Done()
				p.close()
				c.mu.Lock()
				defer c.mu.Unlock()
				for _, e := range []*Env{p.clientEnv, p.serverEnv} {
					if r := c.reasons[e]; len(r) != 1 || r[0] == nil {
						t.Errorf("reported: %v", r)
					}
				}
				for _, s := range []*Session{p.client, p.server} { // the peer learns of the end
					if name == "by a violation" && !strings.Contains(s.Err().Error(), "answer flag") {
						t.Errorf("reason: %v", s.Err())
					}
				}
			})
		})
	}
}

// A message of 64 MiB does not hold up small calls on the same connection, in
// either direction.
func TestLargeMessageBesideSmallCalls(t *testing.T) {
	size := 64 << 20
	if testing.Short() || raceEnabled {
		size = 16 << 20
	}
	roomy := func(c, s *Config) { c.Settings.MaxMessage, s.Settings.MaxMessage = 1<<30, 1<<30 }
	p := newPair(t, tcp(t), methods{"echo": echo()}, roomy)
	done := make(chan error, 1)
	large := bytes.Repeat([]byte("large   "), size/8)
	go func() {
		got, err := p.call(context.Background(), "echo", large)
		if err == nil && !bytes.Equal(got, large) {
			err = errors.New("damaged")
		}
		done <- err
	}()
	small := 0
	for {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
			t.Logf("%d small calls beside a message of %d MiB", small, size>>20)
			if small < 20 {
				t.Error("small calls were held up")
			}
			return
		default:
			if _, err := p.call(context.Background(), "echo", []byte("small")); err != nil {
				t.Fatal(err)
			}
			small++
		}
	}
}

// Many large messages at once share the budget and all arrive.
func TestManyLargeMessages(t *testing.T) {
	p := newPair(t, tcp(t), methods{"echo": echo()}, func(client, server *Config) {
		client.Stall, server.Stall = time.Minute, time.Minute // the machine may be busy
	})
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			msg := bytes.Repeat([]byte{byte(i)}, 3<<20+i)
			got, err := p.call(context.Background(), "echo", msg)
			if err != nil || !bytes.Equal(got, msg) {
				t.Errorf("message %d: %d bytes, %v", i, len(got), err)
			}
		})
	}
	wg.Wait()
	for _, s := range []*Session{p.client, p.server} {
		s.mu.Lock()
		if c := s.m.Counts(); c.Arriving != 0 || c.Held != 0 {
			t.Errorf("left over: %+v", c)
		}
		s.mu.Unlock()
	}
}

// Streams whose messages are not received stop at their windows. Others on the
// connection go on, and the credit is returned when the stalled streams end.
func TestStalledStreams(t *testing.T) {
	each(t, func(t *testing.T, dial func() (net.Conn, net.Conn)) {
		release := make(chan struct{})
		var sent atomic.Int64
		p := newPair(t, dial, methods{"hold": streaming(func(st tandem.MessageStream) error {
			<-release
			return nil
		}), "echo": echo()})
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for range 10 {
			c := p.clientEnv.NewPending()
			c.Method, c.Codec = "hold", "raw"
			st, err := p.client.Open(ctx, c, time.Now().Add(5*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				for st.SendMsg(make([]byte, 10_000)) == nil {
					sent.Add(10_000)
				}
			})
		}
		for before := int64(-1); before != sent.Load() || before == 0; { // until they stall
			before = sent.Load()
			time.Sleep(50 * time.Millisecond) // polls a condition
		}
		if n := sent.Load(); n > 10*(wire.DefaultStreamWindow+10_000) {
			t.Errorf("%d bytes were sent to streams that receive nothing", n)
		}
		for range 50 {
			if _, err := p.call(context.Background(), "echo", make([]byte, 1000)); err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		wg.Wait()
		close(release)
		for end := time.Now().Add(5 * time.Second); ; runtime.Gosched() {
			p.server.mu.Lock()
			c := p.server.m.Counts()
			left := int64(wire.DefaultConnWindow) - c.ConnSpare - c.ConnOwed
			p.server.mu.Unlock()
			if left == 0 {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d bytes of the connection's window are lost", left)
			}
		}
	})
}

// An idle connection holds no buffer.
func TestIdleHoldsNoBuffer(t *testing.T) {
	const conns = 50
	var pairs []*pair
	var before, after runtime.MemStats
	m := methods{"echo": echo()}
	warm := newPair(t, tcp(t), m)
	_ = warm
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range conns {
		p := newPair(t, tcp(t), m)
		for range 3 {
			if _, err := p.call(context.Background(), "echo", make([]byte, 600)); err != nil {
				t.Fatal(err)
			}
		}
		pairs = append(pairs, p)
	}
	// How soon they are idle depends on the scheduler.
	var each int64
	for end := time.Now().Add(10 * time.Second); ; <-time.After(10 * time.Millisecond) {
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&after)
		each = int64(after.HeapAlloc-before.HeapAlloc) / conns
		if each <= 16<<10 && !slices.ContainsFunc(pairs, (*pair).holdsOutput) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d bytes of heap for both ends of an idle connection, or a write buffer is held", each)
		}
	}
	t.Logf("%d bytes of heap for both ends of an idle connection", each)
	runtime.KeepAlive(pairs)
}

// holdsOutput reports whether one of the ends has a buffer for writing.
func (p *pair) holdsOutput() bool {
	holds := func(s *Session) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.m.QueuedBytes() > 0
	}
	return holds(p.client) || holds(p.server)
}

func TestEOFWithinAFrame(t *testing.T) {
	p := newPair(t, memory, methods{"echo": echo()})
	_, _ = p.client.conn.Write(wire.AppendHeader(nil, wire.Header{Length: 100, Type: wire.TypeData})[:7])
	_ = p.client.conn.CloseWrite()
	<-p.server.Done()
	if !errors.Is(p.server.Err(), io.ErrUnexpectedEOF) {
		t.Errorf("got %v", p.server.Err())
	}
}

// A client leaves a draining peer when the one call that is open was given up, and the peer has not
// accepted it: no answer will come.
func TestClientLeavesAPeerThatDrains(t *testing.T) {
	s, peer := connectRaw(t, memory)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := callOn(ctx, s, "m", nil)
		ended <- err
	}()
	readFrame(t, peer)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if h := readFrame(t, peer); h.Type != wire.TypeCancel {
		t.Fatalf("a frame of type %d", h.Type)
	}
	send(t, peer, wire.AppendGoAway(nil, wire.GoAway{Message: "going"}))
	select {
	case <-s.Done():
	case <-time.After(time.Minute):
		t.Error("the client stays connected")
	}
}
