package tandemtest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/tandemtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func count(t *testing.T, c tandem.Caller, opts ...tandem.CallOption) error {
	t.Helper()
	var n int
	err := c.Call(t.Context(), "Cart.Count", "ada", &n, opts...)
	if err == nil && n != 3 {
		t.Errorf("counted %d", n)
	}
	return err
}

// Two instances are both called, and the options of the network make a client of its own.
func TestServe(t *testing.T) {
	network := tandemtest.NewNetwork(t)
	var mu sync.Mutex
	called := map[string]int{}
	for range 2 {
		var id string
		s := network.Serve("cart", func(s *server.Server) error {
			return server.Handle(s, "Cart.Count", func(context.Context, *string) (*int, error) {
				mu.Lock()
				defer mu.Unlock()
				called[id]++
				return new(3), nil
			})
		})
		mu.Lock()
		id = s.ID
		mu.Unlock()
	}
	c, err := client.Dial(network.Target("cart"), network.Options()...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 100 {
		if err := count(t, c); err != nil {
			t.Fatal(err)
		}
	}
	if called["cart-1"] == 0 || called["cart-2"] == 0 || len(called) != 2 {
		t.Errorf("calls: %v", called)
	}
}

// A crash fails calls at once, a restored server answers again.
func TestCrash(t *testing.T) {
	network := tandemtest.NewNetwork(t)
	s := network.Serve("cart", registerCart)
	c := network.Dial("cart", client.WithWait(0))
	if err := count(t, c); err != nil {
		t.Fatal(err)
	}
	s.Crash()
	if err := count(t, c); tandem.CodeOf(err) != tandem.Unavailable {
		t.Errorf("at a crashed server: %v", err)
	}
	s.Restore()
	deadline := time.Now().Add(10 * time.Second)
	for err := count(t, c); err != nil; err = count(t, c) {
		if time.Now().After(deadline) {
			t.Fatalf("at a restored server: %v", err)
		}
		time.Sleep(10 * time.Millisecond) // it connects again in a moment
	}
}

// Connections that are cut are made again, and the call that was running has failed.
func TestCut(t *testing.T) {
	network := tandemtest.NewNetwork(t)
	started, release := make(chan struct{}, 1), make(chan struct{})
	s := network.Serve("cart", func(s *server.Server) error {
		return server.Handle(s, "Cart.Count", func(context.Context, *string) (*int, error) {
			started <- struct{}{}
			<-release
			return new(3), nil
		})
	})
	c := network.Dial("cart")
	running := c.Go(t.Context(), "Cart.Count", "ada", nil, nil)
	<-started
	s.Cut()
	if err := (<-running.Done).Error; tandem.CodeOf(err) != tandem.Unavailable || !tandem.MayHaveExecuted(err) {
		t.Errorf("a call that was cut: %v", err)
	}
	close(release)
	if err := count(t, c); err != nil {
		t.Errorf("after the cut: %v", err)
	}
}

// While a server is stalled nothing arrives, and after that everything.
func TestStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := tandemtest.NewNetwork(t)
		s := network.Serve("cart", registerCart)
		c := network.Dial("cart", client.WithTimeout(2*time.Second))
		if err := count(t, c); err != nil {
			t.Fatal(err)
		}
		s.Stall()
		began := time.Now()
		if err := count(t, c); tandem.CodeOf(err) != tandem.DeadlineExceeded || time.Since(began).Round(time.Millisecond) != 2*time.Second {
			t.Errorf("at a stalled server, after %v: %v", time.Since(began), err)
		}
		time.AfterFunc(time.Second, s.Restore)
		began = time.Now()
		if err := count(t, c); err != nil || time.Since(began) < time.Second {
			t.Errorf("at a server that was stalled for a second, after %v: %v", time.Since(began), err)
		}
	})
}

// Both ways take as long as the delay.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := tandemtest.NewNetwork(t)
		s := network.Serve("cart", registerCart)
		c := network.Dial("cart")
		if err := count(t, c); err != nil {
			t.Fatal(err)
		}
		s.Delay(300 * time.Millisecond)
		began := time.Now()
		if err := count(t, c); err != nil || time.Since(began).Round(time.Millisecond) != 600*time.Millisecond {
			t.Errorf("took %v: %v", time.Since(began), err)
		}
		s.Delay(0)
		time.Sleep(time.Second) // in synctest: what was sent with the delay has arrived
		began = time.Now()
		if err := count(t, c); err != nil || time.Since(began) > time.Millisecond {
			t.Errorf("without delay, took %v: %v", time.Since(began), err)
		}
	})
}

// A client that dials while its registry fails gets the reason; the list comes later.
func TestRegistryFails(t *testing.T) {
	network := tandemtest.NewNetwork(t)
	network.Registry("cart").Fail(errors.New("the registry is away"))
	c := network.Dial("cart", client.WithTimeout(50*time.Millisecond))
	if err := count(t, c); err == nil {
		t.Error("a call without a list succeeds")
	}
	network.Registry("cart").Fail(nil)
	network.Serve("cart", registerCart)
	if err := count(t, c, client.Timeout(10*time.Second)); err != nil {
		t.Error(err)
	}
}

// A stopped server has left the registry, and stopping it again does nothing.
func TestStop(t *testing.T) {
	network := tandemtest.NewNetwork(t)
	first := network.Serve("cart", registerCart)
	network.Serve("cart", registerCart)
	c := network.Dial("cart")
	first.Stop()
	first.Stop()
	for range 20 {
		if err := count(t, c); err != nil {
			t.Fatal(err)
		}
	}
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (r *recorder) Helper() {}

func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

func (r *recorder) Errorf(format string, _ ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, format)
}

func (r *recorder) Error(args ...any) { r.Errorf("%v", args...) }

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(r)
}

// end runs what a test runs at its end.
func (r *recorder) end() []string {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	return r.failures
}

// A goroutine that is left over fails the test.
func TestCheckLeaks(t *testing.T) {
	r := &recorder{TB: t}
	tandemtest.CheckLeaks(r)
	end := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-end
	}()
	if len(r.end()) == 0 {
		t.Error("a leaked goroutine was not found")
	}
	close(end)
	<-ended
	r = &recorder{TB: t}
	tandemtest.CheckLeaks(r)
	if got := r.end(); len(got) != 0 {
		t.Errorf("without a leak: %q", got)
	}
}

// A service that can't be registered fails the test that starts it.
func TestServeFails(t *testing.T) {
	r := &recorder{TB: t}
	network := tandemtest.NewNetwork(r)
	defer func() {
		if p := recover(); p != r || !strings.Contains(strings.Join(r.end(), " "), "registering") {
			t.Errorf("panic %v, failures %q", p, r.failures)
		}
	}()
	network.Serve("cart", func(*server.Server) error { return errors.New("no methods") })
}
