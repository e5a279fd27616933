package loadtest

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Call makes one call. It returns how many bytes the response's message has. It is used by many
// goroutines at a time, and ends soon after its context.
type Call func(ctx context.Context) (size int, err error)

// Run is one run of a load.
type Run struct {
	Load Load
	Call Call
	Show func(*View) // is called several times a second by one goroutine; nil for not at all

	pause func(time.Duration) // sleeps for a short time; tests replace it

	start    time.Time // of the warm-up
	rec      *recorder
	inFlight atomic.Int64
	calls    sync.WaitGroup
}

const (
	lookInterval = 250 * time.Millisecond // between two views
	grace        = time.Second            // for the calls in flight after an interrupt
	coarse       = 2 * time.Millisecond   // shorter times are slept precisely
	failurePause = time.Millisecond       // of a caller in a closed loop: calls to a server that is gone fail at once
)

// Do makes the calls and returns what was measured. If ctx ends, it sends no more calls, and
// returns what it has measured by then. It returns when all calls have ended.
func (r *Run) Do(ctx context.Context) *Result {
	if r.pause == nil {
		r.pause = precisePause()
	}
	r.start = time.Now()
	r.rec = newRecorder(&r.Load, r.start.Add(r.Load.Warmup))
	callCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		if r.Load.Callers > 0 {
			r.closedLoop(ctx, callCtx)
		} else {
			r.openLoop(ctx, callCtx)
		}
	}()
	usage := r.watch(sent)
	r.rec.close(time.Now())
	r.show()
	r.drain(ctx, cancel)
	res := r.rec.result(&r.Load)
	res.Generator.CPU, res.Interrupted = usage, ctx.Err() != nil
	res.warn(&r.Load)
	return res
}

// watch shows views until all calls are sent, and returns how many processors the process has used
// since the warm-up, 0 if that is not known.
func (r *Run) watch(sent <-chan struct{}) float64 {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	warm := time.NewTimer(r.Load.Warmup)
	defer warm.Stop()
	before, began := cpuTime(), time.Now()
	for {
		select {
		case <-warm.C:
			before, began = cpuTime(), time.Now()
		case <-ticker.C:
			r.show()
		case <-sent:
			return round(float64(cpuTime()-before)/float64(max(1, time.Since(began))), hundredths)
		}
	}
}

func (r *Run) show() {
	if r.Show != nil {
		v := r.rec.view(time.Now())
		v.InFlight = r.inFlight.Load()
		r.Show(v)
	}
}

// drain waits for the calls in flight. Each has a timeout; after an interrupt they have a second.
func (r *Run) drain(ctx context.Context, cancel func()) {
	done := make(chan struct{})
	go func() {
		r.calls.Wait()
		close(done)
	}()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	stop := ctx.Done()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			r.show()
		case <-stop:
			stop = nil
			defer time.AfterFunc(grace, cancel).Stop()
		}
	}
}

// openLoop begins each call when it is due, whether earlier ones have ended or not.
func (r *Run) openLoop(ctx, callCtx context.Context) {
	for stage, at := range r.Load.timetable() {
		due := r.start.Add(at)
		if !r.sleepUntil(ctx, due) {
			return
		}
		if r.inFlight.Load() >= int64(r.Load.MaxInFlight) {
			r.rec.notSent(stage, due)
			continue
		}
		r.inFlight.Add(1)
		r.calls.Go(func() {
			defer r.inFlight.Add(-1)
			r.one(callCtx, stage, due)
		})
	}
	r.sleepUntil(ctx, r.start.Add(r.Load.Warmup+r.Load.Duration()))
}

// closedLoop lets every caller make a call when its last one has ended.
func (r *Run) closedLoop(ctx, callCtx context.Context) {
	end := r.start.Add(r.Load.Warmup + r.Load.Duration())
	var callers sync.WaitGroup
	for range r.Load.Callers {
		r.inFlight.Add(1)
		callers.Go(func() {
			defer r.inFlight.Add(-1)
			for begin := time.Now(); ctx.Err() == nil && begin.Before(end); begin = time.Now() {
				stage := 0
				if begin.Before(r.rec.begin) {
					stage = warmingUp
				}
				if !r.one(callCtx, stage, begin) {
					time.Sleep(failurePause)
				}
			}
		})
	}
	r.calls.Go(callers.Wait)
	r.sleepUntil(ctx, end)
}

// one makes a call and records it. It returns whether the call succeeded.
func (r *Run) one(ctx context.Context, stage int, due time.Time) bool {
	began := time.Now()
	size, err := r.Call(ctx)
	r.rec.ended(&sample{
		stage: stage, size: size, err: err, due: due, late: began.Sub(due), end: time.Now(),
		abandoned: err != nil && ctx.Err() != nil,
	})
	return err == nil
}

// sleepUntil waits until an instant; false if ctx ended first.
func (r *Run) sleepUntil(ctx context.Context, at time.Time) bool {
	for {
		left := time.Until(at)
		switch {
		case left <= 0:
			return ctx.Err() == nil
		case left > coarse:
			timer := time.NewTimer(left - coarse)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return false
			}
		default:
			runtime.Gosched() // the calls that were just begun go first
			r.pause(left)
		}
	}
}
