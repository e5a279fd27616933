package session

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
)

// relay copies between two connections until the test stops it.
type relay struct{ hold chan struct{} }

// relayed returns a pair of connections with a relay between them. Closing
// hold makes the network a black hole.
func relayed() (client, server net.Conn, r *relay) {
	client, a := memory()
	b, server := memory()
	r = &relay{hold: make(chan struct{})}
	go r.copy(a, b)
	go r.copy(b, a)
	return client, server, r
}

func (r *relay) copy(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			select {
			case <-r.hold: // not even the end is relayed
			default:
				to.Close()
			}
			return
		}
		select {
		case <-r.hold:
			continue // dropped
		default:
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func waiting(release chan struct{}) *Target {
	return unary(func(ctx context.Context, _ []byte) ([]byte, error) {
		select {
		case <-release:
			return []byte("done"), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	})
}

func TestLongCallIsNoFalseAlarm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := newPair(t, memory, methods{"wait": waiting(release)})
		time.AfterFunc(time.Minute, func() { close(release) })
		got, err := p.call(context.Background(), "wait", nil)
		if err != nil || string(got) != "done" {
			t.Errorf("got %q, %v", got, err)
		}
		if p.client.RTT() == 0 {
			t.Error("no round-trip time was measured in a minute")
		}
		p.close()
	})
}

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stopped := make(chan error, 1)
		p := newPair(t, memory, methods{"wait": unary(func(ctx context.Context, _ []byte) ([]byte, error) {
			<-ctx.Done()
			stopped <- ctx.Err()
			return nil, ctx.Err()
		})})
		c := p.clientEnv.NewPending()
		c.Method, c.Codec, c.Deadline = "wait", "raw", time.Now().Add(300*time.Millisecond)
		start := time.Now()
		err := p.client.Do(context.Background(), c) // no context deadline: the monitor's work
		if took := time.Since(start); !errors.Is(err, context.DeadlineExceeded) || took > 310*time.Millisecond {
			t.Errorf("got %v after %v", err, took)
		}
		if err := <-stopped; !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
			t.Errorf("handler got %v", err)
		}
		p.close()
	})
}

// A handler that blocks loses the reader's turn: other calls go on.
func TestBlockedHandlerHoldsUpNoCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := newPair(t, memory, methods{"wait": waiting(release), "echo": echo()})
		done := make(chan error, 1)
		go func() {
			_, err := p.call(context.Background(), "wait", nil)
			done <- err
		}()
		synctest.Wait()
		start := time.Now()
		if _, err := p.call(context.Background(), "echo", []byte("x")); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 3*tickEvery {
			t.Errorf("echo waited %v", took)
		}
		start = time.Now()
		go p.call(context.Background(), "wait", nil)
		if _, err := p.call(context.Background(), "echo", nil); err != nil || time.Since(start) > 0 {
			t.Errorf("the method was not remembered as slow: %v, %v", err, time.Since(start))
		}
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		p.close()
	})
}

// Handlers that wait for too short a time for the monitor to see do not hold up each other.
func TestShortWaitsDoNotAddUp(t *testing.T) {
	const calls, wait = 100, time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, memory, methods{"m": unary(func(context.Context, []byte) ([]byte, error) {
			time.Sleep(wait)
			return nil, nil
		})})
		start := time.Now()
		var made sync.WaitGroup
		for range calls {
			made.Go(func() {
				if _, err := p.call(context.Background(), "m", nil); err != nil {
					t.Error(err)
				}
			})
		}
		made.Wait()
		if took := time.Since(start); took > 5*wait {
			t.Errorf("%d calls took %v", calls, took)
		}
		p.close()
	})
}

// A method that held up the reader gets goroutines of its own, unless it was quick
// very many times before: then the machine was busy.
func TestRareHoldUpIsNoSlowMethod(t *testing.T) {
	for name, c := range map[string]struct {
		before int
		inline bool
	}{"after few": {3, false}, "after many": {rareRuns, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				target := unary(func(ctx context.Context, in []byte) ([]byte, error) {
					if len(in) > 0 {
						<-ctx.Done()
					}
					return nil, ctx.Err()
				})
				p := newPair(t, memory, methods{"m": target})
				for range c.before {
					if _, err := p.call(context.Background(), "m", nil); err != nil {
						t.Fatal(err)
					}
				}
				ctx, cancel := context.WithTimeout(context.Background(), time.Second)
				defer cancel()
				if _, err := p.call(ctx, "m", []byte("wait")); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatal(err)
				}
				if got := target.inline(); got != c.inline {
					t.Errorf("in the reader: %v, want %v", got, c.inline)
				}
				synctest.Wait()
				p.close()
			})
		})
	}
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := newPair(t, memory, methods{"wait": waiting(release), "echo": echo()})
		running := make(chan error, 1)
		go func() {
			got, err := p.call(context.Background(), "wait", nil)
			if string(got) != "done" && err == nil {
				err = errors.New("wrong answer")
			}
			running <- err
		}()
		synctest.Wait()
		drained := make(chan error, 1)
		go func() { drained <- p.server.Drain(context.Background(), "test") }()
		synctest.Wait()
		if _, err := p.call(context.Background(), "echo", nil); !errors.Is(err, ErrDraining) || tandem.MayHaveExecuted(err) {
			t.Errorf("a new call got %v", err)
		}
		close(release)
		if err := <-running; err != nil {
			t.Errorf("the running call got %v", err)
		}
		if err := <-drained; err != nil {
			t.Error(err)
		}
		p.close()
	})
}

// The monitor of a client sleeps while no deadline is near, and is woken for a call
// whose deadline is before its next tick.
func TestMonitorIsWokenForADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := newPair(t, memory, methods{"wait": waiting(release)})
		ended := make(chan error, 1)
		go func() {
			_, err := p.call(context.Background(), "wait", nil)
			ended <- err
		}()
		time.Sleep(300 * time.Millisecond)
		start := time.Now()
		q := p.clientEnv.NewPending()
		q.Method, q.Codec, q.Deadline = "wait", "raw", start.Add(50*time.Millisecond)
		if err := p.client.Do(context.Background(), q); tandem.CodeOf(err) != tandem.DeadlineExceeded {
			t.Error(err)
		}
		if took := time.Since(start); took < 50*time.Millisecond || took > 50*time.Millisecond+2*slowTick {
			t.Errorf("took %v", took)
		}
		close(release)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		p.close()
	})
}

func TestIdleSessionHasNoMonitor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, memory, methods{"echo": echo()})
		if _, err := p.call(context.Background(), "echo", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second) // a thousand idle clients must not use CPU for their monitors
		for _, e := range []*Env{p.clientEnv, p.serverEnv} {
			e.monitor.mu.Lock()
			if e.monitor.set || len(e.monitor.list) > 0 {
				t.Error("the monitor still runs")
			}
			e.monitor.mu.Unlock()
		}
		p.close()
	})
}

func TestSlotsAndQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		const limit, calls = 4, 20
		p := newPair(t, memory, methods{"wait": waiting(release)}, func(_, s *Config) { s.Settings.MaxOpen = limit })
		results := make(chan error, calls)
		for range calls {
			go func() {
				_, err := p.call(context.Background(), "wait", nil)
				results <- err
			}()
		}
		time.Sleep(time.Second) // virtual
		if _, theirs := p.server.Outstanding(); theirs != limit {
			t.Errorf("%d calls run, limit %d", theirs, limit)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := p.call(ctx, "wait", nil); !errors.Is(err, context.DeadlineExceeded) || tandem.MayHaveExecuted(err) {
			t.Errorf("a queued call got %v", err)
		}
		close(release)
		for range calls {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		p.close()
	})
}

// Canceling does not free the peer's slot: however fast calls are opened and
// canceled, no more than the limit run.
func TestCancelledCallsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stubborn := make(chan struct{})
		const limit = 8
		p := newPair(t, memory, methods{"stubborn": unary(func(context.Context, []byte) ([]byte, error) {
			<-stubborn
			return nil, nil
		})}, func(_, s *Config) { s.Settings.MaxOpen = limit })
		for range 100 {
			ctx, cancel := context.WithCancel(context.Background())
			go func() { synctest.Wait(); cancel() }()
			if _, err := p.call(ctx, "stubborn", nil); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if _, theirs := p.server.Outstanding(); theirs > limit {
				t.Fatalf("%d handlers run, limit %d", theirs, limit)
			}
		}
		close(stubborn)
		synctest.Wait()
		if ours, theirs := p.client.Outstanding(); ours+theirs != 0 {
			t.Errorf("left over: %d, %d", ours, theirs)
		}
		p.close()
	})
}

func pipeEnd() net.Conn { c, _ := memory(); return c }
