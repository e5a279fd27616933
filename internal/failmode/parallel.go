package failmode

import (
	"context"
	"fmt"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/pool"
)

// parallelCall is a call with parallel attempts. The call's goroutine uses it. The goroutines of the
// attempts do not outlive the call: settle waits for them.
type parallelCall struct {
	call    *tandem.Call
	next    tandem.Func
	ctx     context.Context // context of the attempts
	cancel  context.CancelCauseFunc
	results chan result
	begun   int // number of attempts
	running int
	done    []result
}

// result is how an attempt ended.
type result struct {
	attempt *tandem.Call
	err     error
}

func newParallelCall(ctx context.Context, call *tandem.Call, next tandem.Func) *parallelCall {
	r := &parallelCall{call: call, next: next, results: make(chan result)}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	return r
}

// start begins an attempt, at the instance if one is named.
func (r *parallelCall) start(instance string) {
	attempt := r.call.Clone()
	attempt.Attempt = r.call.Attempt + r.begun
	if instance != "" {
		attempt.Pin = instance
	}
	if r.begun > 0 {
		again(attempt)
	}
	r.begun++
	r.running++
	go func() {
		res := result{attempt, ErrEnded}
		defer func() { // also if an interceptor or a plugin has called runtime.Goexit
			concluded(attempt, res.err)
			r.results <- res
		}()
		err := r.next(r.ctx, attempt)
		attempt.End(err)
		res.err = err
	}()
}

// wait waits for an attempt to end and returns its result.
func (r *parallelCall) wait() result { return r.note(<-r.results) }

func (r *parallelCall) note(res result) result {
	r.running--
	r.done = append(r.done, res)
	return res
}

// settle cancels the attempts that still run, which tells their servers, and waits for them. It
// then sets the call's Trailer and Peer to those of the attempt whose response counts, or of
// the last attempt if none does.
func (r *parallelCall) settle() {
	r.cancel(pool.ErrOutrun)
	for r.running > 0 {
		r.wait()
	}
	if len(r.done) == 0 {
		return
	}
	counts := r.done[len(r.done)-1]
	if o, ok := outgoing(r.call); ok {
		for _, res := range r.done {
			if res.err == nil && res.attempt.Peer == o.AnsweredBy() {
				counts = res
			}
		}
	}
	r.call.Trailer, r.call.Peer = counts.attempt.Trailer, counts.attempt.Peer
}

// ErrEnded is the error of an attempt that called [runtime.Goexit], in an interceptor or a
// plugin.
var ErrEnded = &tandem.Error{Code: tandem.Internal, Message: "an interceptor or a plugin has ended the goroutine of the call"}

// failures are attempts that failed. As an error they name the instance of each.
type failures []result

const namedFailures = 8

// Error names the instances, if they are not too many.
func (f failures) Error() string {
	var b strings.Builder
	for i, res := range f {
		if i == namedFailures {
			fmt.Fprintf(&b, "; and %d more", len(f)-i)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "%s: %v", res.attempt.Peer.Instance, res.err)
	}
	return b.String()
}

// Unwrap returns the attempts' errors.
func (f failures) Unwrap() (errs []error) {
	for _, res := range f {
		errs = append(errs, res.err)
	}
	return errs
}

// of returns the error of a call with so many attempts: the error of the only one, or one with
// the code of the first. NotExecuted is set only if no attempt can have been executed, and
// RetryAfter is the most cautious one.
func (f failures) of(attempts int) error {
	if len(f) == 1 && attempts == 1 {
		return f[0].err
	}
	e := tandem.Errorf(tandem.CodeOf(f[0].err), "%d of %d attempts failed: %w", len(f), attempts, f)
	e.NotExecuted = len(f) == attempts
	for _, res := range f {
		one := tandem.AsError(res.err)
		e.NotExecuted = e.NotExecuted && one.NotExecuted
		if e.RetryAfter >= 0 && (one.RetryAfter < 0 || one.RetryAfter > e.RetryAfter) {
			e.RetryAfter = one.RetryAfter
		}
	}
	return e
}
