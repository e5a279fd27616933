package client_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// Clients wait as long as the server asks, if there is time, and stop when the server says so.
func TestPushback(t *testing.T) {
	for name, mode := range map[string]tandem.FailMode{"failover": client.Failover, "failtry": client.Failtry, "backup": client.Backup} {
		for _, c := range []struct {
			says     time.Duration
			attempts int
			least    time.Duration
			reason   string
		}{
			{0, 3, 0, ""},
			{300 * time.Millisecond, 3, 600 * time.Millisecond, ""},
			{800 * time.Millisecond, 2, 800 * time.Millisecond, "to wait longer than the deadline"},
			{2 * time.Second, 1, 0, "to wait longer than the deadline"},
			{tandem.DoNotRetry, 1, 0, ""},
		} {
			synctest.Test(t, func(t *testing.T) {
				cl := newCluster(t, 3, func(context.Context, string) (string, error) {
					return "", tandem.Errorf(tandem.Unavailable, "sick").WithRetryAfter(c.says)
				})
				cli := cl.client(t, client.WithFailMode(mode), client.WithConnections(client.Connections{Backoff: time.Millisecond, MaxBackoff: time.Millisecond}))
				start := time.Now()
				_, err := do(t, cli, client.Idempotent(), client.Timeout(1500*time.Millisecond))
				took := time.Since(start)
				if cl.total() != c.attempts || took < c.least || took > c.least+20*time.Millisecond {
					t.Errorf("%s, %v: %d attempts in %v, want %d in %v", name, c.says, cl.total(), took, c.attempts, c.least)
				}
				var e *tandem.Error
				if !errors.As(err, &e) || e.RetryAfter != tandem.DoNotRetry || !strings.Contains(e.Message, c.reason) {
					t.Errorf("%s, %v: got %+v", name, c.says, err)
				}
			})
		}
	}
}

// The wait ends when the caller cancels.
func TestPushbackEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, 1, func(context.Context, string) (string, error) {
			return "", tandem.Errorf(tandem.Unavailable, "sick").WithRetryAfter(time.Second)
		})
		c := cl.client(t, client.WithFailMode(client.Failtry))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		time.AfterFunc(100*time.Millisecond, cancel)
		start := time.Now()
		if err := c.Call(ctx, "Test.Do", "", nil, client.Idempotent()); err == nil || time.Since(start) != 100*time.Millisecond {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// A server that refuses for its limit says when its running calls should have ended, once it
// knows how long they take.
func TestLimitSetsRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var took atomic.Int64
		cl := newCluster(t, 1, func(_ context.Context, at string) (string, error) {
			time.Sleep(time.Duration(took.Load()))
			return at, nil
		}, server.WithMaxConcurrency(2, 4))
		c := cl.client(t)
		for i, want := range []time.Duration{0, 150 * time.Millisecond, 150 * time.Millisecond, time.Second} { // the first has not seen any end
			if took.Store(int64(50 * time.Millisecond)); i == 2 {
				took.Store(int64(time.Minute)) // which the last then knows
			}
			var held []*client.Pending
			for range 6 {
				held = append(held, c.Go(t.Context(), "Test.Do", "", nil, nil, client.Timeout(time.Hour)))
			}
			time.Sleep(20 * time.Millisecond) // all have come
			_, err := do(t, c)
			var e *tandem.Error
			if !errors.As(err, &e) || e.Code != tandem.ResourceExhausted || !e.NotExecuted || e.RetryAfter != want {
				t.Errorf("round %d: %+v, want %v", i, err, want)
			}
			for _, p := range held {
				<-p.Done
			}
		}
	})
}
