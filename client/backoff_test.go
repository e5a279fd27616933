package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/resilience"
)

// The ceiling doubles up to the longest pause; below it all pauses are equally likely.
func TestBackoffPause(t *testing.T) {
	b := resilience.Backoff{First: 100 * time.Millisecond, Most: 3 * time.Second}
	for failures, ms := range map[int]int{0: 100, 1: 200, 2: 400, 3: 800, 4: 1600, 5: 3000, 6: 3000, 19: 3000, 20: 3000, 64: 3000, 100: 3000} {
		ceiling := time.Duration(ms) * time.Millisecond
		const draws = 10_000
		var tenths [10]int
		for range draws {
			p := b.Pause(failures, rand.Float64()) - time.Millisecond // the least part of every pause
			if p < 0 || p >= ceiling {
				t.Fatalf("after %d failures: %v, ceiling %v", failures, p, ceiling)
			}
			tenths[10*p/ceiling]++
		}
		for i, n := range tenths {
			if n < draws/10*8/10 || n > draws/10*12/10 {
				t.Errorf("after %d failures: %d of %d pauses in tenth %d of %v", failures, n, draws, i, ceiling)
			}
		}
	}
}

// dialer is a transport that dials by a function.
type dialer func(ctx context.Context, address string) (net.Conn, error)

func (d dialer) Dial(ctx context.Context, address string) (net.Conn, error) { return d(ctx, address) }

func (dialer) Listen(context.Context, string) (net.Listener, error) {
	return nil, errors.New("not here")
}

// A link that can't connect makes longer and longer pauses.
func TestLinkBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials []time.Time
		c, err := Dial("mem://a", WithTransport("mem", dialer(func(context.Context, string) (net.Conn, error) {
			dials = append(dials, time.Now())
			return nil, errors.New("no server")
		})))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		for i := range min(5, len(dials)-1) {
			if gap := dials[i+1].Sub(dials[i]); gap > 100*time.Millisecond<<i+time.Millisecond {
				t.Errorf("pause %d: %v", i, gap)
			}
		}
		if n := len(dials); n < 320 || n > 500 { // on average every 1.5 s, from the fifth on
			t.Errorf("%d attempts in ten minutes", n)
		}
	})
}
