package session

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/wire"
)

// eventually waits until ok, which is called with the session's mutex held.
func eventually(t *testing.T, s *Session, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Microsecond) { // between looks
		s.mu.Lock()
		done := ok()
		s.mu.Unlock()
		if done {
			return
		}
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// alone makes calls one at a time until the reader has parked its turn.
func alone(t *testing.T, p *pair) {
	t.Helper()
	eventually(t, p.client, "the turn was never parked", func() bool {
		p.client.mu.Unlock()
		defer p.client.mu.Lock()
		if got, err := p.call(context.Background(), "echo", []byte("a")); err != nil || string(got) != "a" {
			t.Fatalf("%q, %v", got, err)
		}
		p.client.mu.Lock()
		defer p.client.mu.Unlock()
		return p.client.parked != nil
	})
}

func TestLoneCallerReads(t *testing.T) {
	block := make(chan struct{})
	p := newPair(t, tcp(t), methods{"echo": echo(), "block": unary(func(_ context.Context, in []byte) ([]byte, error) {
		<-block
		return in, nil
	})})
	p.clientEnv.monitor.stop() // it would have a goroutine read before long
	alone(t, p)
	var wg sync.WaitGroup
	wg.Go(func() {
		if got, err := p.call(t.Context(), "block", []byte("b")); err != nil || string(got) != "b" {
			t.Errorf("%q, %v", got, err)
		}
	})
	eventually(t, p.client, "the caller does not read", func() bool { return p.client.reading != nil })
	close(block)
	wg.Wait()
}

// A caller that can be canceled, or whose deadline is near, does not read for long.
func TestReadingCallerIsRelieved(t *testing.T) {
	for name, test := range map[string]struct {
		timeout time.Duration // 0: the call is canceled when its caller reads
		want    error
	}{
		"cancel":   {0, context.Canceled},
		"deadline": {100 * time.Millisecond, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			best := time.Hour // the machine may be busy
			for attempt := 0; attempt < 10 && best > calmTick/2; attempt++ {
				if took, read := relieved(t, test.timeout, test.want); read {
					best = min(best, took)
				}
			}
			if best > calmTick/2 {
				t.Errorf("took %v at least", best)
			}
		})
	}
}

// relieved makes a call whose context ends while its caller reads, and returns how long it
// took. It returns false if the caller was not seen to read: on a busy machine the context may
// have ended before, or the monitor had a goroutine read.
func relieved(t *testing.T, timeout time.Duration, want error) (took time.Duration, read bool) {
	t.Helper()
	block, runs := make(chan struct{}), make(chan struct{}, 1)
	p := newPair(t, tcp(t), methods{"echo": echo(), "block": unary(func(context.Context, []byte) ([]byte, error) {
		runs <- struct{}{}
		<-block
		return nil, nil
	})})
	defer p.close()
	defer close(block)
	alone(t, p)
	time.Sleep(5 * slowTick) // so that the monitor has got used to calls that can't be cancelled
	alone(t, p)
	start := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	if timeout > 0 {
		ctx, cancel = context.WithTimeout(t.Context(), timeout)
	}
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := p.call(ctx, "block", nil)
		ended <- err
	}()
	eventually(t, p.client, "the call is not sent", func() bool {
		read = p.client.reading != nil
		return read || len(runs) > 0 || len(ended) > 0
	})
	if timeout == 0 {
		start = time.Now()
		cancel()
	}
	wantEnds(t, want, ended)
	took = time.Since(start)
	if got, err := p.call(t.Context(), "echo", []byte("c")); err != nil || string(got) != "c" {
		t.Errorf("the next call: %q, %v", got, err)
	}
	return took, read
}

// Without calls the end of the connection is noticed all the same.
func TestParkedConnectionIsReadAgain(t *testing.T) {
	p := newPair(t, tcp(t), methods{"echo": echo()})
	alone(t, p)
	p.server.Close()
	select {
	case <-p.client.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the session has not noticed that the peer closed the connection")
	}
}

// Bytes that arrived while the turn was parked are handled before the next call is
// sent: the call can be made elsewhere.
func TestParkedConnectionIsPolledBeforeACall(t *testing.T) {
	for name, leave := range map[string]func(*pair){
		"hang-up": func(p *pair) { p.server.Close() },
		"goaway": func(p *pair) {
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			_ = p.server.Drain(ctx, "test")
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				p := newPair(t, tcp(t), methods{"echo": echo()})
				alone(t, p)
				leave(p)
				time.Sleep(3 * staleAfter) // sockets know no virtual time
				_, err := p.call(t.Context(), "echo", nil)
				if e := tandem.AsError(err); e == nil || !e.NotExecuted || !errors.Is(err, ErrDraining) {
					t.Errorf("%v; it must be certain that nothing ran", err)
				}
				p.close()
			}
		})
	}
}

// The number of callers changes, so that the turn goes from goroutines to callers
// and back, with cancels, large responses and relieved calls in between.
func TestReadingChangesHands(t *testing.T) {
	p := newPair(t, tcp(t), methods{"echo": unary(func(_ context.Context, in []byte) ([]byte, error) {
		if rand.IntN(200) == 0 {
			time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond) // long enough to be relieved
		}
		return in, nil
	})})
	var direct, apart atomic.Int64
	watching, stop := context.WithCancel(t.Context())
	var watcher, callers sync.WaitGroup
	watcher.Go(func() {
		for watching.Err() == nil {
			p.client.mu.Lock()
			switch {
			case p.client.reading != nil:
				direct.Add(1)
			case p.client.m.OpenCalls() > 0:
				apart.Add(1)
			}
			p.client.mu.Unlock()
			time.Sleep(50 * time.Microsecond) // between looks
		}
	})
	for caller := range uint32(3) {
		callers.Go(func() {
			for call := range 3000 / (2*caller + 1) { // so that at last there is one
				if call%50 == 0 {
					time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) // long enough for a goroutine to take the turn
				}
				oneCall(t, p, caller, call)
			}
		})
	}
	callers.Wait()
	stop()
	watcher.Wait()
	t.Logf("seen to read: callers %d times, a goroutine %d times", direct.Load(), apart.Load())
	if direct.Load() == 0 || apart.Load() == 0 {
		t.Error("the test did not test")
	}
}

func oneCall(t *testing.T, p *pair, caller, call uint32) {
	size := rand.IntN(300)
	if call%100 == 99 {
		size = 70_000 + rand.IntN(200_000)
	}
	ctx, cancel := t.Context(), context.CancelFunc(func() {})
	if rand.IntN(20) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(60_000))*time.Microsecond)
	}
	defer cancel()
	got, err := p.call(ctx, "echo", sealed(caller, call, size))
	if errors.Is(err, context.DeadlineExceeded) {
		return
	}
	if who, which, ok := opened(got); err != nil || !ok || who != caller || which != call {
		t.Errorf("caller %d call %d got the answer of caller %d call %d (intact: %v): %v", caller, call, who, which, ok, err)
	}
}

// scripted is a session whose reader is parked, and its peer, which does what
// the test says. The session has no monitor.
func scripted(t *testing.T) (s *Session, peer net.Conn) {
	t.Helper()
	s, peer = connectRaw(t, tcp(t))
	s.env.monitor.stop() // it would have a goroutine read before long
	for range parkAfter {
		ended := goCall(t, s)
		send(t, peer, emptyAnswer(readFrame(t, peer).Stream))
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parked == nil {
		t.Fatal("the turn is not parked")
	}
	return s, peer
}

// goCall makes a call, which sends its error when it has ended.
func goCall(t *testing.T, s *Session) (ended chan error) {
	ended = make(chan error, 1)
	go func() {
		_, err := callOn(t.Context(), s, "m", nil)
		ended <- err
	}()
	return ended
}

func emptyAnswer(id wire.Stream) []byte {
	return rawFrame(wire.TypeResponse, wire.FlagAnswer|wire.FlagEnd|wire.FlagLast, id, wire.AppendResponse(nil, &wire.Response{}))
}

func TestReadingCallerWakesOthers(t *testing.T) {
	s, peer := scripted(t)
	first := goCall(t, s)
	answers := emptyAnswer(readFrame(t, peer).Stream)
	second := goCall(t, s)
	answers = append(answers, emptyAnswer(readFrame(t, peer).Stream)...)
	send(t, peer, answers)
	wantEnds(t, nil, first, second)
}

// wantEnds waits for calls, which must end so: well if want is nil.
func wantEnds(t *testing.T, want error, calls ...chan error) {
	t.Helper()
	for _, ended := range calls {
		select {
		case err := <-ended:
			if !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a call does not end")
		}
	}
}

// The response and what ends the session may arrive in one read.
func TestReadingCallerHasItsAnswer(t *testing.T) {
	s, peer := scripted(t)
	ended := goCall(t, s)
	answer := emptyAnswer(readFrame(t, peer).Stream)
	send(t, peer, wire.AppendGoAway(answer, wire.GoAway{Accepted: parkAfter + 1, Reason: wire.ReasonOverload, Message: "test"}))
	wantEnds(t, nil, ended)
}

// A caller whose response another caller has read is woken, also when the session
// ends before a goroutine reads on.
func TestReadingCallerWakesOthersAtTheEnd(t *testing.T) {
	for name, end := range map[string]func(s *Session, send func()){
		"of the session": func(s *Session, send func()) {
			send()
			for reads := true; reads; {
				s.mu.Lock()
				reads = s.reading != nil
				s.mu.Unlock()
			}
			s.Close()
		},
		"of all": func(s *Session, send func()) {
			s.env.Close(0)
			send()
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				s, peer := scripted(t)
				reads := goCall(t, s)
				mine := emptyAnswer(readFrame(t, peer).Stream)
				waits := goCall(t, s)
				answers := append(emptyAnswer(readFrame(t, peer).Stream), mine...)
				eventually(t, s, "no caller reads", func() bool { return s.reading != nil })
				end(s, func() { send(t, peer, answers) })
				wantEnds(t, nil, reads, waits)
			}
		})
	}
}

// A caller whose call the peer has not accepted does not read on for a stream.
func TestReadingCallerOnGoAwayBesideAStream(t *testing.T) {
	s, peer, st, message := scriptedStream(t, t.Context())
	for range 10 {
		send(t, peer, message)
		receiveOne(t, st)
	}
	eventually(t, s, "the turn is not parked", func() bool { return s.parked != nil })
	ended := make(chan error, 1)
	go func() {
		_, err := callOn(context.Background(), s, "m", nil)
		ended <- err
	}()
	readFrame(t, peer)
	eventually(t, s, "the caller does not read", func() bool { return s.reading != nil })
	send(t, peer, wire.AppendGoAway(nil, wire.GoAway{Accepted: 1, Message: "test"}))
	wantEnds(t, ErrDraining, ended)
	send(t, peer, message)
	receiveOne(t, st)
}

// A part of a frame that arrived with the response is not lost with the turn.
func TestReadingCallerKeepsHalfAFrame(t *testing.T) {
	s, peer := scripted(t)
	ping := wire.AppendPing(nil, wire.TypePing, [8]byte{1})
	ended := goCall(t, s)
	answer := emptyAnswer(readFrame(t, peer).Stream)
	send(t, peer, append(answer, ping[:5]...))
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	send(t, peer, ping[5:])
	if h := readFrame(t, peer); h.Type != wire.TypePong {
		t.Errorf("got frame %v, want a pong", h.Type)
	}
}

// After a response that arrived in two parts the next caller reads, too.
func TestReadingCallerGetsAnAnswerInParts(t *testing.T) {
	s, peer := scripted(t)
	for range 5 {
		ended := goCall(t, s)
		answer := emptyAnswer(readFrame(t, peer).Stream)
		send(t, peer, answer[:5])
		eventually(t, s, "no caller has read the first part", func() bool { return s.reading != nil && s.reading.State == machine.CallOpen })
		time.Sleep(time.Millisecond) // so that it is usually read alone
		send(t, peer, answer[5:])
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		eventually(t, s, "the turn is not parked", func() bool { return s.parked != nil })
	}
}

// A goaway before the response ends a call that the peer has not accepted.
func TestReadingCallerOnGoAway(t *testing.T) {
	s, peer := scripted(t)
	ended := goCall(t, s)
	readFrame(t, peer)
	send(t, peer, wire.AppendGoAway(nil, wire.GoAway{Accepted: parkAfter, Message: "test"}))
	wantEnds(t, ErrDraining, ended)
}

// On a connection whose peer may call, a goroutine reads all the time.
func TestCallersDoNotReadWhereThePeerCalls(t *testing.T) {
	called := make(chan struct{})
	p := newPair(t, tcp(t), methods{"echo": echo()}, func(client, _ *Config) {
		client.Resolve = methods{"back": unary(func(context.Context, []byte) ([]byte, error) {
			close(called)
			return nil, nil
		})}.find
	})
	for range 100 {
		if _, err := p.call(t.Context(), "echo", nil); err != nil {
			t.Fatal(err)
		}
	}
	if p.client.callersRead {
		t.Error("callers may read")
	}
	if _, err := callOn(t.Context(), p.server, "back", nil); err != nil {
		t.Error(err)
	}
	<-called
}

// Callers do not read connections without a read that does not wait: before a call
// they could not see whether the peer has closed the connection.
func TestCallersReadOnSocketsOnly(t *testing.T) {
	for name, c := range map[string]struct {
		dial func() (net.Conn, net.Conn)
		want bool
	}{"memory": {memory, false}, "plain": {plain(t), false}, "tcp": {tcp(t), true}} {
		if p := newPair(t, c.dial, methods{}); p.client.callersRead != c.want {
			t.Errorf("%s: %v, want %v", name, p.client.callersRead, c.want)
		}
	}
}
