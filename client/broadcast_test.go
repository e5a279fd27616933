package client_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// without answers at all instances but those in sickly.
func without(sickly string) deed {
	return func(ctx context.Context, at string) (string, error) {
		if strings.Contains(sickly, at) {
			return sick(ctx, at)
		}
		return well(ctx, at)
	}
}

// Each instance gets the call once, and the share that was set must succeed.
func TestBroadcast(t *testing.T) {
	for name, c := range map[string]struct {
		sickly string
		opts   []client.Option
		fails  bool
	}{
		"all are well":          {"", nil, false},
		"one of four is not":    {"b", nil, true},
		"a half is enough":      {"bc", []client.Option{client.WithAttempts(client.Attempts{BroadcastShare: 0.5})}, false},
		"a half is not reached": {"bcd", []client.Option{client.WithAttempts(client.Attempts{BroadcastShare: 0.5})}, true},
		"one is enough":         {"bcd", []client.Option{client.WithAttempts(client.Attempts{BroadcastShare: 0.01})}, false},
		"there is not one":      {"abcd", []client.Option{client.WithAttempts(client.Attempts{BroadcastShare: 0.01})}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t, 4, without(c.sickly))
				said, err := do(t, cl.client(t, append(c.opts, client.WithFailMode(client.Broadcast))...))
				if (err != nil) != c.fails || err == nil && (len(said) != 1 || strings.Contains(c.sickly, said)) {
					t.Errorf("got %q, %v", said, err)
				}
				for _, at := range cl.names {
					if cl.at(at) != 1 {
						t.Errorf("%d calls at %s", cl.at(at), at)
					}
					if named := err != nil && strings.Contains(err.Error(), at+": unavailable: sick"); named != (c.fails && strings.Contains(c.sickly, at)) {
						t.Errorf("%s is named: %v in %v", at, named, err)
					}
				}
			})
		})
	}
}

// As many instances as allowed are called at a time, and not more.
func TestBroadcastAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int64
		cl := newCluster(t, 9, func(_ context.Context, at string) (string, error) {
			n := running.Add(1)
			for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			}
			time.Sleep(time.Second)
			running.Add(-1)
			return at, nil
		})
		c := cl.client(t, client.WithFailMode(client.Broadcast), client.WithAttempts(client.Attempts{BroadcastShare: 1, BroadcastAtOnce: 3}))
		start := time.Now()
		if _, err := do(t, c); err != nil || cl.total() != 9 {
			t.Errorf("%d calls, %v", cl.total(), err)
		}
		if took := time.Since(start); most.Load() != 3 || took < 3*time.Second || took > 3100*time.Millisecond {
			t.Errorf("%d at a time, %v", most.Load(), took)
		}
	})
}

// An instance that is draining does not count, nor does one that the call excludes.
func TestBroadcastSkipsDrainingInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		cl := newCluster(t, 4, func(_ context.Context, at string) (string, error) {
			if at == "b" {
				<-release
			}
			return at, nil
		})
		c := cl.client(t, client.WithFailMode(client.Broadcast))
		held := c.Go(t.Context(), "Test.Do", "", nil, nil, client.Instance("mem://b"))
		synctest.Wait()
		down := make(chan error, 1)
		go func() { down <- cl.servers[1].Shutdown(context.Background()) }()
		synctest.Wait()
		if _, err := do(t, c, func(call *tandem.Call) { call.Exclude = []string{"mem://c"} }); err != nil {
			t.Error(err)
		}
		if a, b, cc, d := cl.at("a"), cl.at("b"), cl.at("c"), cl.at("d"); a != 1 || b != 1 || cc != 0 || d != 1 {
			t.Errorf("calls: %d %d %d %d", a, b, cc, d)
		}
		close(release)
		if err := (<-held.Done).Error; err != nil {
			t.Error(err)
		}
		if err := <-down; err != nil {
			t.Error(err)
		}
	})
}

// A one-way call goes to all instances, too. A call for which there is no instance says why.
func TestBroadcastOneWayAndNoInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, 3, well)
		if err := cl.client(t, client.WithFailMode(client.Broadcast)).Notify(t.Context(), "Test.Do", ""); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if cl.total() != 3 {
			t.Errorf("%d calls", cl.total())
		}
		cl.names = []string{"nobody"}
		_, err := do(t, cl.client(t, client.WithFailMode(client.Broadcast)))
		if tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) {
			t.Errorf("got %v", err)
		}
	})
}
