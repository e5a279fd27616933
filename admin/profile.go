package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"runtime/trace"
	"time"

	"github.com/tandem-rpc/tandem"
)

const (
	profileTime    = 5 * time.Second
	maxProfileTime = time.Minute
	maxProfile     = 64 << 20
)

// bounded is a buffer that fails when it is full.
type bounded struct{ bytes.Buffer }

var errTooLarge = errors.New("the profile is larger than 64 MiB")

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxProfile {
		return 0, errTooLarge
	}
	return b.Buffer.Write(p)
}

func (a *Admin) profile(ctx context.Context, req *ProfileRequest) (*Profile, error) {
	if req.For < 0 || req.For > maxProfileTime {
		return nil, tandem.Errorf(tandem.InvalidArgument, "a profile takes at most %v", maxProfileTime)
	}
	b := new(bounded)
	err := collect(ctx, req, b)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, tandem.Errorf(tandem.ResourceExhausted, "%v", err)
	case err != nil:
		return nil, err
	}
	name := req.Kind + ".pprof"
	switch {
	case req.Kind == "trace":
		name = "trace.out"
	case req.Text:
		name = req.Kind + ".txt"
	}
	return &Profile{Name: name, Data: b.Bytes()}, nil
}

func collect(ctx context.Context, req *ProfileRequest, to *bounded) error {
	switch req.Kind {
	case "cpu":
		if err := pprof.StartCPUProfile(to); err != nil {
			return busy(err)
		}
		defer pprof.StopCPUProfile()
		return wait(ctx, req.For)
	case "trace":
		if err := trace.Start(to); err != nil {
			return busy(err)
		}
		defer trace.Stop()
		return wait(ctx, req.For)
	}
	p := pprof.Lookup(req.Kind)
	if p == nil {
		return tandem.Errorf(tandem.InvalidArgument, "%q is no kind of profile: cpu, trace, heap, goroutine, allocs, block, mutex, threadcreate", req.Kind)
	}
	text := 0
	if req.Text {
		text = 1
	}
	return p.WriteTo(to, text)
}

func busy(err error) error {
	return tandem.Errorf(tandem.FailedPrecondition, "another profile is being made: %v", err)
}

// wait waits for d, or less if the caller gives up.
func wait(ctx context.Context, d time.Duration) error {
	if d == 0 {
		d = profileTime
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return tandem.Errorf(tandem.DeadlineExceeded, "the profile takes %v, and the call must end before: give it more time", d)
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("profile: %w", context.Cause(ctx))
	}
}
