package demo

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/services"
)

// maxInFlight bounds the calls in flight. A call that is due when the bound is reached is not
// made; it is counted as overflow.
const maxInFlight = 5000

// load makes the calls.
type load struct {
	client tandem.Caller
	plan   plan
	stats  *stats
	slots  chan struct{}
	wg     sync.WaitGroup
}

// run makes every call of the schedule at its time, until ctx ends. It does not
// wait for the last ones.
func (l *load) run(ctx context.Context, start time.Time) {
	for made := 0; made < l.plan.steady; {
		if !sleepUntil(ctx, start.Add(l.plan.at(made))) {
			return
		}
		for due := l.plan.due(time.Since(start)); made < due; made++ {
			l.launch(ctx, l.plan.job(made), start.Add(l.plan.at(made)))
		}
	}
}

// volley makes all calls of a volley at once.
func (l *load) volley(ctx context.Context, n int) {
	now := time.Now()
	for _, j := range l.plan.volleyJobs(n) {
		l.launch(ctx, j, now)
	}
}

// launch makes a call in a new goroutine, unless too many are in flight.
func (l *load) launch(ctx context.Context, j job, intended time.Time) {
	select {
	case l.slots <- struct{}{}:
	default:
		l.stats.overflow()
		return
	}
	l.wg.Go(func() {
		defer func() { <-l.slots }()
		server, err := l.call(ctx, &j)
		l.stats.observe(outcome{job: j, server: server, err: err, took: time.Since(intended)})
	})
}

// wait waits for the calls in flight. Each has a deadline.
func (l *load) wait() { l.wg.Wait() }

// call makes one call and checks the response. It returns the server of the last attempt.
func (l *load) call(ctx context.Context, j *job) (server string, err error) {
	opts := []tandem.CallOption{func(c *tandem.Call) {
		c.OnEnd(func(error) { server = c.Peer.Instance })
	}}
	if j.hold > 0 {
		opts = append(opts, services.Hold(j.hold))
	}
	switch j.kind {
	case mul:
		err = l.mul(ctx, j, append(opts, client.Idempotent()))
	case say:
		err = l.say(ctx, append(opts, client.Idempotent(), client.Codec("generated")))
	case appendEntry:
		err = l.append(ctx, j, opts)
	}
	return server, err
}

func (l *load) mul(ctx context.Context, j *job, opts []tandem.CallOption) error {
	reply, err := client.Invoke[services.Reply](ctx, l.client, services.Mul, &services.Args{A: j.a, B: j.b}, opts...)
	if err == nil && reply.C != j.a*j.b {
		err = wrongAnswerError{fmt.Sprintf("%d times %d is said to be %d", j.a, j.b, reply.C)}
	}
	return err
}

func (l *load) say(ctx context.Context, opts []tandem.CallOption) error {
	reply, err := client.Invoke[services.Greeting](ctx, l.client, services.Say, &services.Greeting{Name: "world", Letter: letter}, opts...)
	if err != nil {
		return err
	}
	if want := (services.Greeting{Name: "world", Answer: "Hello, world", Letter: letter}); *reply != want {
		return wrongAnswerError{fmt.Sprintf("the answer to a greeting was %+v", *reply)}
	}
	return nil
}

// letter makes a greeting as large as the messages of the benchmarks: 581 bytes.
var letter = strings.Repeat("x", 572) //nolint:mnd // 581 less the lengths and "world"

func (l *load) append(ctx context.Context, j *job, opts []tandem.CallOption) error {
	id := uint64(j.id) //nolint:gosec // counts from 0
	reply, err := client.Invoke[services.Receipt](ctx, l.client, services.Append, &services.Entry{ID: id}, opts...)
	if err == nil && reply.ID != id {
		err = wrongAnswerError{fmt.Sprintf("entry %d got the receipt of %d", id, reply.ID)}
	}
	return err
}

// wrongAnswerError is the error of a wrong response.
type wrongAnswerError struct{ text string }

func (w wrongAnswerError) Error() string { return "wrong answer: " + w.text }

// sleepUntil waits until at. It returns false if ctx ended first.
func sleepUntil(ctx context.Context, at time.Time) bool {
	d := time.Until(at)
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
