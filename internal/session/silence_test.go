package session

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

// seconds converts s to the clock of a silenceDetector.
func seconds(s float64) int64 { return int64(s * float64(time.Second)) }

// The lines of a case are what a silenceDetector sees, one after the other.
func TestSilenceDetector(t *testing.T) {
	type line struct {
		at, heard float64
		unacked   int     // of 100 bytes before the ping, which is 20 bytes long
		age       float64 // of the last acknowledgement
		behind    bool
		want      verdict
	}
	for name, c := range map[string]struct {
		rtt     time.Duration
		unknown bool
		lines   []line
	}{
		"a peer that answers": {lines: []line{
			{at: 0.4, want: healthy}, {at: 0.6, want: unsure}, {at: 0.9, want: asking}, {at: 0.95, heard: 0.9, want: healthy}, {at: 1.3, heard: 0.9, want: healthy},
			{at: 1.5, heard: 0.9, want: unsure},
		}},
		"a suspect that answers": {lines: []line{
			{at: 0.6, want: unsure}, {at: 1, want: asking}, {at: 1.2, want: suspect}, {at: 19, want: suspect}, {at: 19.1, heard: 19, want: healthy},
		}},
		"what came before the ping is no answer": {lines: []line{
			{at: 0.6, heard: 0.05, want: unsure}, {at: 1.2, heard: 0.05, want: suspect},
		}},
		"a long round trip": {rtt: 3 * time.Second, lines: []line{
			{at: 5.9, want: healthy}, {at: 6.1, want: unsure}, {at: 11.9, want: asking}, {at: 12.2, want: suspect},
		}},
		"a process that hangs": {lines: []line{
			{at: 0.6, unacked: 20, want: unsure}, {at: 0.7, want: asking}, {at: 1.5, want: suspect}, {at: 20.6, want: suspect}, {at: 20.8, want: hung}, {at: 60, want: hung},
		}},
		"a process that hangs and takes no more": { // its host answers probes
			lines: []line{{at: 0.6, unacked: 120, want: unsure}, {at: 1.2, unacked: 120, want: suspect}, {at: 20.7, unacked: 120, age: 3, want: hung}},
		},
		"a way that is broken": {lines: []line{
			{at: 0.6, unacked: 120, want: unsure}, {at: 1.2, unacked: 120, age: 1.2, want: suspect}, {at: 20.5, unacked: 120, age: 20.5, want: suspect}, {at: 20.7, unacked: 120, age: 20.7, want: gone},
		}},
		"a way that is slow": {lines: []line{
			{at: 0.6, unacked: 120, want: unsure}, {at: 1.2, unacked: 100, want: asking}, {at: 10, unacked: 60, want: asking}, {at: 40, unacked: 10, want: asking},
			{at: 40.4, unacked: 0, want: asking}, {at: 40.8, unacked: 0, want: asking}, {at: 41, unacked: 0, want: suspect},
		}},
		"bytes that are not read yet": {lines: []line{
			{at: 0.6, want: unsure}, {at: 5, behind: true, want: asking}, {at: 5.4, want: asking}, {at: 5.6, want: suspect},
		}},
		"a transport that says nothing": {unknown: true, lines: []line{
			{at: 0.6, want: unsure}, {at: 1.2, want: suspect}, {at: 20.5, want: suspect}, {at: 20.7, want: gone},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := silenceDetector{silence: DefaultSilence}
			l.begin(0)
			for _, at := range c.lines {
				v := observation{
					now: seconds(at.at), heard: seconds(at.heard), rtt: c.rtt, written: 120, behind: at.behind, known: !c.unknown,
					sent: transport.Sent{Unacked: at.unacked, Age: time.Duration(seconds(at.age))},
				}
				got := l.look(&v)
				if got != at.want {
					t.Fatalf("after %v s: verdict %d, want %d", at.at, got, at.want)
				}
				if got == unsure {
					l.pinged(&v, 120)
				}
			}
		})
	}
}

// When this process did not run, silence says nothing: neither that a peer is silent nor
// that a suspect peer is healthy again.
func TestSilenceDetectorAfterSleep(t *testing.T) {
	l := silenceDetector{silence: DefaultSilence}
	l.begin(0)
	see := func(at float64, want verdict) {
		t.Helper()
		v := observation{now: seconds(at), known: true}
		got := l.look(&v)
		if got != want {
			t.Errorf("after %v s: verdict %d, want %d", at, got, want)
		}
		if got == unsure {
			l.pinged(&v, 0)
		}
	}
	see(0.6, unsure)
	l.slept(seconds(30))
	see(30.1, healthy)
	see(30.6, unsure)
	see(31.2, suspect)
	l.slept(seconds(60)) // it has been silent for 0.6 s
	see(60.1, suspect)
	see(79.3, suspect)
	see(79.5, hung)
}

// kernel is a connection that knows what the peer's host has acknowledged, as a socket does.
type kernel struct {
	net.Conn

	mu      sync.Mutex
	unacked int
	broken  time.Time // zero while everything is acknowledged at once
}

func (k *kernel) Write(p []byte) (int, error) {
	n, err := k.Conn.Write(p)
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.broken.IsZero() {
		k.unacked += n
	}
	return n, err
}

func (k *kernel) Sent() (transport.Sent, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.broken.IsZero() {
		return transport.Sent{}, true
	}
	return transport.Sent{Unacked: k.unacked, Age: time.Since(k.broken)}, true
}

// breaks ends acknowledgements.
func (k *kernel) breaks() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.broken = time.Now()
}

// hears records the arguments of OnSuspicion's function.
type hears struct {
	mu   sync.Mutex
	from time.Time
	said []bool
	at   []time.Duration
}

func (h *hears) listen(s *Session) {
	h.from = time.Now()
	s.OnSuspicion(func(suspect bool) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.said, h.at = append(h.said, suspect), append(h.at, time.Since(h.from))
	})
}

// heard returns the arguments so far, and when they came.
func (h *hears) heard() ([]bool, []time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.said, h.at
}

// stopped returns a pair whose server receives nothing once hold is closed, and whose client
// knows what is acknowledged.
func stopped(t *testing.T, m methods, opts ...pairOption) (p *pair, k *kernel, hold chan struct{}) {
	client, server, r := relayed()
	k = &kernel{Conn: client}
	p = newPair(t, func() (net.Conn, net.Conn) { return k, server }, m, opts...)
	return p, k, r.hold
}

// wait calls the method "wait".
func (p *pair) wait(deadline time.Duration, usual bool) error {
	c := p.clientEnv.NewPending()
	c.Method, c.Codec, c.UsualDeadline = "wait", "raw", usual
	if deadline > 0 {
		c.Deadline = time.Now().Add(deadline)
	}
	return p.client.Do(context.Background(), c)
}

// within checks that the virtual time since start is between least and most.
func within(t *testing.T, what string, start time.Time, least, most time.Duration) {
	t.Helper()
	if took := time.Since(start); took < least || took > most {
		t.Errorf("%s after %v, want %v to %v", what, took, least, most)
	}
}

// A process that hangs: calls without a deadline of their own end after the silence,
// others at their deadline, and the connection when none is left.
func TestHungPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, hold := stopped(t, methods{"wait": waiting(nil)})
		var h hears
		h.listen(p.client)
		close(hold)
		start := time.Now()
		var all sync.WaitGroup
		for _, usual := range []bool{false, true} {
			all.Go(func() {
				deadline := time.Duration(0)
				if usual {
					deadline = time.Hour
				}
				err := p.wait(deadline, usual)
				if tandem.CodeOf(err) != tandem.Unavailable || errors.Is(err, ErrDraining) || !tandem.MayHaveExecuted(err) {
					t.Errorf("got %v", err)
				}
				within(t, "a call without a deadline of its own ended", start, DefaultSilence, DefaultSilence+2*time.Second)
			})
		}
		all.Go(func() {
			time.Sleep(10 * time.Second)
			began := time.Now()
			_ = p.wait(0, false)
			within(t, "a later one ended", began, DefaultSilence, DefaultSilence+2*time.Second)
		})
		if err := p.wait(time.Minute, false); tandem.CodeOf(err) != tandem.DeadlineExceeded {
			t.Errorf("a call with a deadline got %v", err)
		}
		within(t, "it ended", start, time.Minute, time.Minute+time.Second)
		<-p.client.Done()
		within(t, "the connection ended", start, time.Minute, time.Minute+time.Second)
		all.Wait()
		if said, at := h.heard(); len(said) != 1 || !said[0] || at[0] < leastSuspectAfter || at[0] > 2*leastSuspectAfter {
			t.Errorf("said %v at %v", said, at)
		}
		p.close()
	})
}

// A broken link ends the connection and every call on it, after the silence.
func TestBlackHoleIsFound(t *testing.T) {
	for name, known := range map[string]bool{"the kernel knows": true, "nothing is known": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, server, r := relayed()
				k := &kernel{Conn: client}
				if known {
					client = k
				}
				p := newPair(t, func() (net.Conn, net.Conn) { return client, server }, methods{"wait": waiting(nil)})
				var h hears
				h.listen(p.client)
				time.AfterFunc(time.Second, func() {
					k.breaks()
					close(r.hold)
				})
				start := time.Now()
				err := p.wait(time.Hour, false)
				if tandem.CodeOf(err) != tandem.Unavailable || !strings.Contains(err.Error(), "silent") || errors.Is(err, ErrDraining) || !tandem.MayHaveExecuted(err) {
					t.Errorf("got %v", err)
				}
				within(t, "found", start, DefaultSilence, DefaultSilence+3*time.Second)
				if said, at := h.heard(); len(said) != 1 || at[0] > 2*time.Second+leastSuspectAfter {
					t.Errorf("said %v at %v", said, at)
				}
				<-p.server.Done() // it has a call outstanding too
				p.close()
			})
		})
	}
}

// A pause of three seconds at the server makes it suspect, but no call fails.
func TestPauseCostsNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := memory()
		k, gate := &kernel{Conn: client}, &gatedConn{Conn: server, waits: 1, gate: make(chan struct{})}
		p := newPair(t, func() (net.Conn, net.Conn) { return k, gate }, methods{"echo": echo()})
		var h hears
		h.listen(p.client)
		gate.arm() // it sends neither responses nor pongs
		time.AfterFunc(3*time.Second, gate.open)
		if _, err := p.call(context.Background(), "echo", nil); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if said, at := h.heard(); len(said) != 2 || !said[0] || said[1] || at[1] > 3*time.Second+2*slowTick {
			t.Errorf("said %v at %v", said, at)
		}
		p.close()
	})
}

// Calls that can be made elsewhere are given up at a suspect peer if Move allows it; others stay.
func TestCallsLeaveASuspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		paid := 1
		p, _, hold := stopped(t, methods{"wait": waiting(nil)}, func(c, _ *Config) {
			c.Move = func(*Session, *tandem.Call) bool { paid--; return paid >= 0 }
		})
		close(hold)
		start := time.Now()
		results := make(chan error)
		for _, movable := range []*tandem.Call{{}, {}, nil} {
			go func() {
				c := p.clientEnv.NewPending()
				c.Method, c.Codec, c.Movable, c.Deadline = "wait", "raw", movable, start.Add(10*time.Second)
				results <- p.client.Do(context.Background(), c)
			}()
		}
		if err := <-results; !errors.Is(err, ErrMoved) || errors.Is(err, ErrDraining) || !tandem.MayHaveExecuted(err) {
			t.Errorf("got %v", err)
		}
		within(t, "the first moved", start, leastSuspectAfter, 2*leastSuspectAfter)
		for range 2 {
			if err := <-results; tandem.CodeOf(err) != tandem.DeadlineExceeded {
				t.Errorf("got %v", err)
			}
		}
		p.close()
	})
}

// A call that was never sent is given up as not executed.
func TestUnsentCallAtASuspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, hold := stopped(t, methods{"wait": waiting(nil)}, func(c, s *Config) {
			s.Settings.MaxOpen = 1
			c.Move = func(*Session, *tandem.Call) bool { return true }
		})
		close(hold)
		go p.wait(time.Minute, false)
		synctest.Wait()
		c := p.clientEnv.NewPending()
		c.Method, c.Codec, c.Movable = "wait", "raw", new(tandem.Call)
		if err := p.client.Do(context.Background(), c); !errors.Is(err, ErrMoved) || tandem.MayHaveExecuted(err) {
			t.Errorf("got %v", err)
		}
		p.close()
	})
}

// After a pause of its own, a process finds its ping unanswered, which is no verdict on the peer.
func TestOwnPauseIsNoVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, memory, methods{"wait": waiting(nil)})
		done := make(chan error, 1)
		go func() { done <- p.wait(0, false) }()
		synctest.Wait()
		s, now := p.client, p.clientEnv.now()
		long := func() {
			s.detector.asked, s.detector.since = now-int64(time.Hour), now-int64(time.Hour)
			s.received.Store(now - 2*int64(time.Hour))
		}
		long()
		s.checkPeer(now, true)
		if err := s.Err(); err != nil {
			t.Fatalf("ended: %v", err)
		}
		long()
		s.checkPeer(now, false) // the same without the pause is a verdict
		s.checkPeer(now, false) // of which the first look notes the frames that came
		if s.Err() == nil {
			t.Error("a peer silent for an hour was not noticed")
		}
		if err := <-done; err == nil {
			t.Error("the call did not fail")
		}
		p.close()
	})
}

// A reader that still handles earlier bytes has not come to the pong: that is no silence.
func TestBacklogIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, peer := acceptRaw(t, serverConfig(nil))
		time.Sleep(time.Minute) // virtual
		send(t, peer, bytes.Repeat(wire.AppendHeader(nil, wire.Header{Type: 99}), 100))
		synctest.Wait()
		now := s.env.now()
		for _, c := range []struct {
			what   string
			turn   uint64
			behind bool
		}{{"100 frames on", 0, true}, {"nothing more", 0, false}, {"a handler in the reader", 1, true}, {"nothing more", 0, false}} {
			s.turn.Store(c.turn)
			if v := s.observePeer(now); v.behind != c.behind {
				t.Errorf("%s: behind %v", c.what, v.behind)
			}
		}
	})
}
