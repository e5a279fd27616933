package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
)

// fate is the outcome of a call that must not run twice.
type fate uint8

const (
	fateNone        fate = iota // not made, not ended, or not such a call
	fateAnswered                // answered
	fateNotExecuted             // failed, and certainly not executed
	fateUnknown                 // failed, and may have been executed
)

// outcome is the outcome of a call.
type outcome struct {
	job    job
	server string // the server of the last attempt
	err    error
	took   time.Duration // time since the call was due
}

// totals count calls.
type totals struct {
	made     int // calls that were made and have ended
	ok       int
	failed   int // calls that failed, without the following two
	wrong    int // calls with a wrong response
	unknown  int // calls that are not idempotent and may have run
	overflow int // calls that were not made, as too many were in flight
	retried  int // attempts after the first
	moved    int // attempts that a draining server sent elsewhere
}

// stats collects the outcomes of the calls. It is safe for concurrent use; fates may be read
// when all calls have ended.
type stats struct {
	fates []fate // outcomes by the ID of the call

	mu      sync.Mutex
	sum     totals
	all     *latencies
	servers map[string]*latencies
	doubts  map[string]int // attempts that may have run and failed, by server
	errors  []string       // the first few
}

// maxSamples is how many errors are kept for the report.
const maxSamples = 8

func newStats(calls int) *stats {
	return &stats{
		fates: make([]fate, calls), all: newLatencies(),
		servers: map[string]*latencies{}, doubts: map[string]int{},
	}
}

// observe records the outcome of a call.
func (s *stats) observe(o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum.made++
	s.settle(&o)
	if o.err != nil {
		s.sample(&o)
		return
	}
	s.sum.ok++
	server := s.serverLocked(o.server)
	server.answered++
	if o.job.hold == 0 { // the latency of a held call says nothing about speed
		server.add(o.took)
		s.all.add(o.took)
	}
}

// settle counts a failure, and records the fate of a call that must not run twice.
func (s *stats) settle(o *outcome) {
	end := fateAnswered
	switch wrong := (wrongAnswerError{}); {
	case o.err == nil:
	case errors.As(o.err, &wrong):
		s.sum.wrong++
	case o.job.kind != appendEntry:
		s.sum.failed++
	case tandem.MayHaveExecuted(o.err):
		s.sum.unknown++
		end = fateUnknown
	default:
		s.sum.failed++
		end = fateNotExecuted
	}
	if o.job.kind == appendEntry {
		s.fates[o.job.id] = end
	}
}

func (s *stats) sample(o *outcome) {
	if len(s.errors) < maxSamples {
		s.errors = append(s.errors, fmt.Sprintf("call %d to %q after %v: %s",
			o.job.id, o.server, o.took.Round(time.Microsecond), errorText(o.err)))
	}
}

// overflow counts a call that was not made.
func (s *stats) overflow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sum.overflow++
}

// intercept is an interceptor of attempts. It counts retries, and the failures
// that leave a call in doubt.
func (s *stats) intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		again := len(call.Exclude) > call.Attempt // moved by a draining server
		err := next(ctx, call)
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case again:
			s.sum.moved++
		case call.Attempt > 0:
			s.sum.retried++
		}
		if err != nil && tandem.MayHaveExecuted(err) {
			s.doubts[call.Peer.Instance]++
		}
		return err
	}
}

func (s *stats) serverLocked(name string) *latencies {
	if s.servers[name] == nil {
		s.servers[name] = newLatencies()
	}
	return s.servers[name]
}

// rotate begins a new slot of time.
func (s *stats) rotate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all.rotate()
	for _, l := range s.servers {
		l.rotate()
	}
}

// totals returns the counts so far.
func (s *stats) totals() totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sum
}

// samples returns the first few errors.
func (s *stats) samples() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.errors
}

// answered returns how many calls each server has answered, by name.
func (s *stats) answered() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := make(map[string]int, len(s.servers))
	for name, l := range s.servers {
		counts[name] = l.answered
	}
	return counts
}

// doubtsAt returns how many attempts on a server failed in doubt.
func (s *stats) doubtsAt(server string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.doubts[server]
}

// read calls f with the latencies of a server, or of all for "", which it must
// not keep.
func (s *stats) read(server string, f func(*latencies)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.all
	if server != "" {
		l = s.serverLocked(server)
	}
	f(l)
}
