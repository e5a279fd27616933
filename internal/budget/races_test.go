package budget_test

import (
	"context"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/budget"
)

// TestRandomRequests runs requests in goroutines that begin, grow, shrink, are canceled while
// they wait or read, reach their deadline, go on after a refusal, or lose their connection together
// with its other requests. In the end nothing is held, and nothing waits.
func TestRandomRequests(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) { requests(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func requests(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 24))
	b := budget.New(playLimit)
	var wg sync.WaitGroup
	for range 1 + r.IntN(5) {
		account := b.Account()
		conn, lose := context.WithCancel(t.Context())
		life := time.Duration(r.IntN(2000)) * time.Millisecond
		wg.Go(func() {
			time.Sleep(life)
			lose()
		})
		for range 1 + r.IntN(40) {
			own := rand.New(rand.NewPCG(r.Uint64(), seed))
			wg.Go(func() { request(t, own, conn, account) })
		}
	}
	wg.Wait()
	used, _ := b.Used()
	if early, refusedBytes := b.Early(); used != 0 || b.Waiting() != 0 || early != 0 || refusedBytes != 0 || b.Excess() != nil {
		t.Errorf("%d bytes, %d waits, %d early bytes, %d refusedBytes bytes, excess %v are left", used, b.Waiting(), early, refusedBytes, b.Excess())
	}
}

// readPause is the longest time that a read of request takes.
const readPause = 100 * time.Millisecond

// request is one request of a connection, which holds nothing when it returns.
func request(t *testing.T, r *rand.Rand, conn context.Context, account *budget.Account) {
	pause := func() { time.Sleep(time.Duration(r.Int64N(int64(readPause)))) }
	pause()
	h := account.Hold()
	defer h.Release()
	if r.IntN(2) == 0 && !h.Begin(r.Int64N(playLimit/20)) {
		return
	}
	ctx, cancel := context.WithCancel(conn)
	if r.IntN(2) == 0 {
		ctx, cancel = context.WithTimeout(conn, time.Duration(r.IntN(300))*time.Millisecond)
	}
	defer cancel()
	for range r.IntN(8) {
		began := time.Now()
		err := h.GrowReading(ctx, 1+r.Int64N(playLimit/3), 50*time.Millisecond, func() error {
			if r.IntN(3) == 0 {
				return io.EOF
			}
			if !h.Begin(r.Int64N(playLimit / 50)) {
				return h.Exhausted(1)
			}
			pause()
			return nil
		})
		deadline, timed := ctx.Deadline()
		switch {
		case err != nil && tandem.MayHaveExecuted(err):
			t.Error("may have executed: ", err)
		case timed && time.Since(deadline) > readPause && began.Before(deadline):
			t.Errorf("it waited for %v beyond its deadline", time.Since(deadline))
		case err != nil && r.IntN(4) > 0:
			return
		}
		pause()
		h.Shrink(r.Int64N(playLimit / 6))
		if r.IntN(10) == 0 {
			h.Release() // and goes on, as a stream does
		}
	}
}
