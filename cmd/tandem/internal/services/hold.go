package services

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// holdKey is the metadata key that makes a server delay its response.
const holdKey = "demo-hold"

// MaxHold bounds the delay of a response.
const MaxHold = 2 * time.Second

// Hold makes the server delay the response by d after the method has run.
func Hold(d time.Duration) tandem.CallOption { return client.Metadata(holdKey, d.String()) }

// Holder is the server's part of [Hold]. It also counts the running calls. The zero value is
// ready for use.
type Holder struct{ running atomic.Int64 }

// Running returns the number of running calls.
func (h *Holder) Running() int64 { return h.running.Load() }

// Intercept is a server interceptor.
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
