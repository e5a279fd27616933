package client_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// givenUp collects the calls that FailbackQueue's GiveUp gets.
type givenUp struct {
	mu   sync.Mutex
	errs []error
	ids  []string
}

func (g *givenUp) option() client.Option {
	return client.WithAttempts(client.Attempts{Failback: client.FailbackQueue{GiveUp: func(call *tandem.Call, err error) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.errs, g.ids = append(g.errs, err), append(g.ids, call.Metadata.Get("id"))
	}}})
}

func (g *givenUp) all() (ids []string, errs []error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.ids), slices.Clone(g.errs)
}

// A call that fails is accepted, and made again with the same arguments although its memory is
// used by other calls by then.
func TestFailbackTriesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		again := make(chan time.Duration, 10)
		start := time.Now()
		cl := newCluster(t, 1, func(ctx context.Context, name string) (string, error) {
			if tandem.FromContext(ctx).Attempt > 0 {
				again <- time.Since(start)
			}
			if down.Load() {
				return sick(ctx, name)
			}
			return name, nil
		})
		var up givenUp
		c := cl.client(t, client.WithFailMode(client.Failback), up.option())
		if said, err := do(t, c, client.Idempotent()); err != nil || said != "unchanged" {
			t.Fatalf("got %q, %v", said, err)
		}
		down.Store(false)
		for range 3 { // they use the memory of the first
			if said, err := do(t, c); err != nil || said != "a" {
				t.Errorf("got %q, %v", said, err)
			}
		}
		down.Store(true)
		first := <-again // fails, too
		synctest.Wait()
		down.Store(false)
		second := <-again
		if first < 2500*time.Millisecond || first > 7501*time.Millisecond || second-first < 5*time.Second || second-first > 15001*time.Millisecond {
			t.Errorf("further attempts at %v and %v", first, second)
		}
		time.Sleep(time.Hour)
		if len(again) > 0 {
			t.Error("it is tried again after it has succeeded")
		}
		if _, errs := up.all(); len(errs) > 0 {
			t.Errorf("given up: %v", errs)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The later attempts have the arguments of the call.
func TestFailbackKeepsArguments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		mem := newCluster(t, 0, nil).network
		serveOn(t, mem, "x", register("Test.Say", func(ctx context.Context, in *string) (*string, error) {
			if call := tandem.FromContext(ctx); call.Metadata.Get("later") != "" && call.Attempt == 0 {
				return nil, tandem.Errorf(tandem.Unavailable, "not now")
			}
			mu.Lock()
			defer mu.Unlock()
			got = append(got, *in)
			return in, nil
		}))
		c := dial(t, "mem://x", client.WithTransport("mem", mem), client.WithFailMode(client.Failback))
		for _, size := range []int{10, 3_000, 300_000} {
			later := strings.Repeat("L", size)
			if err := c.Call(t.Context(), "Test.Say", later, nil, client.Idempotent(), client.Metadata("later", "1"), client.Compressor("gzip")); err != nil {
				t.Error(err)
			}
			if err := c.Call(t.Context(), "Test.Say", strings.Repeat("x", size), nil); err != nil { // in the same memory
				t.Error(err)
			}
			time.Sleep(time.Minute)
			if mu.Lock(); len(got) != 2 || got[1] != later {
				t.Errorf("size %d: %d calls, the last of %d bytes", size, len(got), len(got[len(got)-1]))
			}
			got = nil
			mu.Unlock()
		}
	})
}

// Calls whose last attempt fails, and calls that do not fit into the queue, are given up.
func TestFailbackGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, 1, sick)
		var up givenUp
		c := cl.client(t, client.WithFailMode(client.Failback), client.WithAttempts(client.Attempts{Failback: client.FailbackQueue{Size: 2, Tries: 3, Pause: time.Second}}), up.option())
		for _, id := range []string{"1", "2", "3"} {
			_, err := do(t, c, client.Idempotent(), client.Metadata("id", id))
			if full := err != nil && strings.Contains(err.Error(), "not queued: 2 calls are waiting"); full != (id == "3") {
				t.Errorf("call %s: %v", id, err)
			}
		}
		if ids, errs := up.all(); len(ids) != 1 || ids[0] != "3" || !strings.Contains(errs[0].Error(), "not queued") {
			t.Errorf("given up: %v %v", ids, errs)
		}
		time.Sleep(time.Minute)
		if _, errs := up.all(); cl.total() != 3+2*3 || len(errs) != 3 || tandem.CodeOf(errs[2]) != tandem.Unavailable {
			t.Errorf("%d attempts, given up: %v", cl.total(), errs)
		}
		if _, err := do(t, c, client.Idempotent()); err != nil {
			t.Errorf("there is room again: %v", err)
		}
	})
}

// A call that a further attempt can't mend, or might execute twice, fails at once.
func TestFailbackAcceptsNoHopelessCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up givenUp
		c := newCluster(t, 1, sick).client(t, client.WithFailMode(client.Failback), up.option())
		if _, err := do(t, c); tandem.CodeOf(err) != tandem.Unavailable {
			t.Errorf("it may have run: %v", err)
		}
		if err := c.Call(t.Context(), "Test.None", 1, nil, client.Idempotent()); tandem.CodeOf(err) != tandem.Unimplemented {
			t.Errorf("no such method: %v", err)
		}
		if _, err := do(t, c, client.Instance("nobody")); err != nil {
			t.Errorf("it can't have run: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		c = newCluster(t, 1, untilEnd(make(chan time.Time, 1))).client(t, client.WithFailMode(client.Failback), up.option())
		if err := c.Call(ctx, "Test.Do", "", nil, client.Idempotent()); tandem.CodeOf(err) != tandem.Canceled {
			t.Errorf("the caller has left: %v", err)
		}
		if _, errs := up.all(); len(errs) > 0 {
			t.Errorf("given up: %v", errs)
		}
	})
}

// Close does not wait for further attempts, and returns how many calls were left.
func TestFailbackEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan time.Time, 10)
		hang := untilEnd(ended)
		cl := newCluster(t, 1, func(ctx context.Context, at string) (string, error) {
			if call := tandem.FromContext(ctx); call.Attempt > 0 && call.Metadata.Get("id") == "hangs" {
				return hang(ctx, at)
			}
			return sick(ctx, at)
		})
		var up givenUp
		c := cl.client(t, client.WithFailMode(client.Failback), up.option(), client.WithAttempts(client.Attempts{Failback: client.FailbackQueue{Size: 100, Tries: 3, Pause: 10 * time.Second}}))
		for _, id := range []string{"hangs", "waits"} {
			if _, err := do(t, c, client.Idempotent(), client.Metadata("id", id), client.Timeout(time.Hour)); err != nil {
				t.Error(err)
			}
		}
		for cl.total() < 4 { // both have been tried again, and one attempt is running
			time.Sleep(100 * time.Millisecond)
		}
		start := time.Now()
		err := c.Close()
		if tandem.CodeOf(err) != tandem.Canceled || !strings.Contains(err.Error(), "2 calls") || time.Since(start) > time.Second {
			t.Errorf("Close: %v after %v", err, time.Since(start))
		}
		if _, errs := up.all(); len(errs) != 2 {
			t.Errorf("given up: %v", errs)
		}
		if late := (<-ended).Sub(start); late > time.Millisecond {
			t.Errorf("the attempt ended %v after Close", late)
		}
	})
}
