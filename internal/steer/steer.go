// Package steer keeps what a process did with a document that steers it, such as a policy, and
// reports it to where the document is from. For tandem's own packages only.
package steer

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem/policy"
)

// State is what was done with the last document. The zero State reports nothing. It is safe for
// concurrent use after Begin.
type State struct {
	news chan struct{} // has a token when there is something to report; nil if nothing is reported

	mu      sync.Mutex
	applied policy.Applied
}

// Begin makes the State keep news for Report.
func (s *State) Begin() { s.news = make(chan struct{}, 1) }

// Record keeps what was done with a document, to be reported, and returns what was kept before.
func (s *State) Record(a policy.Applied) (before policy.Applied) {
	s.mu.Lock()
	before, s.applied = s.applied, a
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
	return before
}

// Last returns what was kept last.
func (s *State) Last() policy.Applied {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied
}

// UniqueName makes a name for a process that has none.
func UniqueName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%.64s/%d/%.8s", host, os.Getpid(), rand.Text())
}

// Shortened returns an error's text, cut to 2000 bytes: a document may have made it long.
func Shortened(err error) string {
	const most = 2000
	text := err.Error()
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// Times of reports. They are spread, so that thousands of readers of one document don't report at
// the same time.
const (
	reportSpread  = 200 * time.Millisecond
	reportRetry   = 5 * time.Second
	reportTimeout = 5 * time.Second
	withdrawTime  = time.Second // closing waits for it
)

// Report reports to the source what has been applied: when it is new, and again before the last
// report expires. It returns when life ends.
func (s *State) Report(life context.Context, r policy.Reporter, log *slog.Logger) {
	failed, reported := "", false
	defer func() {
		if reported {
			s.withdraw(r)
		}
	}()
	wait := time.NewTimer(policy.ReportEvery)
	defer wait.Stop()
	for {
		select {
		case <-s.news:
		case <-wait.C:
		case <-life.Done():
			return
		}
		if !sleep(life, mathrand.N(reportSpread)) {
			return
		}
		next := policy.ReportEvery
		if a := s.Last(); a.Client != "" {
			ctx, cancel := context.WithTimeout(life, reportTimeout)
			reported = true
			err := r.Report(ctx, a)
			cancel()
			if err != nil {
				next = reportRetry
				if text := Shortened(err); text != failed && life.Err() == nil {
					log.Warn("what was applied could not be reported", "error", text)
					failed = text
				}
			} else {
				failed = ""
			}
		}
		wait.Reset(next - mathrand.N(next/4))
	}
}

// withdraw reports that the process has ended, so that operators do not wait for it to apply a new
// document. If the report fails, the last one expires by itself.
func (s *State) withdraw(r policy.Reporter) {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTime)
	defer cancel()
	a := s.Last()
	a.At, a.Ended = time.Now(), true
	_ = r.Report(ctx, a)
}

// sleep waits; it returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
