package once

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
)

// method runs the calls of one method.
type method struct {
	plugin *Plugin
	name   string
}

// Intercept runs calls with a key once.
func (m *method) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		if !call.IsKeyed() {
			return next(ctx, call)
		}
		return m.call(ctx, call, next)
	}
}

// The pauses between two looks at a record that another instance works on.
const (
	firstPause = 10 * time.Millisecond
	mostPause  = 500 * time.Millisecond
)

// settling bounds the work on a record after its method has returned.
const settling = 5 * time.Second

func (m *method) call(ctx context.Context, call *tandem.Call, next tandem.Func) error {
	p := m.plugin
	r, err := m.request(call)
	if err != nil {
		return notExecuted(err)
	}
	if err := p.flights.enter(ctx, r.ID); err != nil {
		return stillRunning(err)
	}
	defer p.flights.leave(r.ID)
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		claim, record, err := p.store.Begin(ctx, r)
		switch {
		case err != nil:
			return p.refusedBy(ctx, err)
		case claim != nil:
			return m.run(ctx, call, next, claim)
		case record.Fingerprint != r.Fingerprint:
			p.counts.mismatched.Add(1)
			return mismatch(r.ID)
		case record.State == StateDone:
			p.counts.repeated.Add(1)
			return repeat(call, r.ID, record.Answer)
		case record.State == StateUndecided:
			p.counts.undecided.Add(1)
			return undecided(r.ID)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return stillRunning(ctx.Err())
		}
	}
}

// refusedBy returns the error of a call that the store has not begun.
func (p *Plugin) refusedBy(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*tandem.Error](err); ok { // for the caller
		return notExecuted(err)
	}
	if ctx.Err() != nil {
		return stillRunning(ctx.Err())
	}
	p.counts.failed.Add(1)
	p.log.Warn("a call with a key was not begun: the store failed", "error", err)
	return notExecuted(tandem.Errorf(tandem.Unavailable, "the store of calls with a key does not work just now"))
}

// run runs the method and settles the record.
func (m *method) run(ctx context.Context, call *tandem.Call, next tandem.Func, claim Claim) (err error) {
	p := m.plugin
	running, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.timeout)
	defer cancel()
	switch c := claim.(type) {
	case Transaction:
		running = c.Context(running)
	case Leased:
		running = context.WithValue(running, tokenKey{}, c.Token())
		defer p.renew(running, c)()
	}
	p.counts.running.Add(1)
	defer p.counts.running.Add(-1)
	body := &recorder{Body: call.Body}
	call.Body, call.Keyed = body, true
	returned := false
	defer func() {
		call.Body = body.Body
		if !returned { // an interceptor panicked, or ended the goroutine: what it did before is not known
			_ = p.settle(ctx, call, claim, body, tandem.Errorf(tandem.Internal, "method %s did not return", m.name)) // the panic goes on
		}
	}()
	err = next(running, call)
	returned = true
	return p.settle(ctx, call, claim, body, err)
}

// settle keeps the answer of a call, or releases its record, and returns the error of the call.
func (p *Plugin) settle(ctx context.Context, call *tandem.Call, claim Claim, body *recorder, err error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settling)
	defer cancel()
	_, undoes := claim.(Transaction)
	if err != nil && (undoes || !tandem.MayHaveExecuted(err) || isUndone(err)) {
		if failed := claim.Release(ctx); failed != nil {
			p.counts.failed.Add(1)
			p.log.Warn("a call with a key did nothing, and its record could not be released", "method", call.Method, "error", failed)
		}
		return err
	}
	failed := claim.Finish(ctx, newAnswer(call, body, err, p.maxAnswer))
	if failed == nil {
		p.counts.ran.Add(1)
		return err
	}
	p.counts.failed.Add(1)
	p.log.Warn("a call with a key ran, and its answer could not be kept", "method", call.Method, "error", failed)
	switch {
	case undoes: // it may be committed nevertheless: a retry finds out
		return tandem.Errorf(tandem.Unavailable, "the transaction of a call with a key may not have been committed")
	case errors.Is(failed, ErrFenced):
		return tandem.Errorf(tandem.Aborted, "the call ran so long that it was taken for interrupted, and its record was resolved")
	}
	return err // this caller can have the answer; later ones get Undecided
}

// renew renews a lease until the function that it returns has been called, which waits for the end of
// that.
func (p *Plugin) renew(ctx context.Context, c Leased) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	every := c.Lease() / 3 //nolint:mnd // two renewals may fail
	renewing.Go(func() {
		for {
			select {
			case <-time.After(every):
			case <-ctx.Done():
				return
			}
			attempt, end := context.WithTimeout(ctx, every)
			err := c.Renew(attempt)
			end()
			switch {
			case errors.Is(err, ErrFenced):
				return
			case err != nil && ctx.Err() == nil:
				p.counts.failed.Add(1)
				p.log.Warn("the lease of a call with a key was not renewed", "error", err)
			}
		}
	})
	return func() { cancel(); renewing.Wait() }
}

// flights lets one call with an ID at a time pass.
type flights struct {
	mu      sync.Mutex
	running map[ID]chan struct{} // closed when the call has left
}

// enter waits until no other call with the ID is inside.
func (f *flights) enter(ctx context.Context, id ID) error {
	for {
		f.mu.Lock()
		left, taken := f.running[id]
		if !taken {
			f.running[id] = make(chan struct{})
		}
		f.mu.Unlock()
		if !taken {
			return nil
		}
		select {
		case <-left:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (f *flights) leave(id ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.running[id])
	delete(f.running, id)
}
