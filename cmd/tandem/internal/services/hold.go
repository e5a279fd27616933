package services

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// holdKey is the metadata that asks a server to keep its answer for a while.
const holdKey = "demo-hold"

// MaxHold is the longest that an answer is held.
const MaxHold = 2 * time.Second

// Hold asks the server to answer only after d, when the method has already run.
func Hold(d time.Duration) tandem.CallOption { return client.Metadata(holdKey, d.String()) }

// Holder is the server's part of [Hold]. It also counts the calls that are
// running. The zero value is ready.
type Holder struct{ running atomic.Int64 }

// Running returns how many calls have begun and not ended.
func (h *Holder) Running() int64 { return h.running.Load() }

// Intercept is a server's interceptor.
func (h *Holder) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		h.running.Add(1)
		defer h.running.Add(-1)
		err := next(ctx, call)
		if d, bad := time.ParseDuration(call.Metadata.Get(holdKey)); bad == nil && d > 0 {
			wait(ctx, min(d, MaxHold))
		}
		return err
	}
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
