package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem/internal/pool"
	"github.com/tandem-rpc/tandem/internal/rules"
	"github.com/tandem-rpc/tandem/policy"
)

// WithPolicy sets the policy of the client's calls. It overrides the client's options, and a
// call's own options override it. Changes of p after Dial have no effect.
func WithPolicy(p *policy.Policy) Option {
	return func(o *options) {
		o.given.Add("WithPolicy")
		o.fixed = p
	}
}

// WithPolicyFrom makes the client follow a policy until Close. Until the first document has
// come, the policy of [WithPolicy] is in force, if there is one. A document replaces the one
// before as a whole, for calls that begin after it. An invalid document is refused as a whole
// and logged; the one before stays in force, as it does while the source has none. If the
// source is a [policy.Reporter], the client reports the result of each document to it, and
// again at least every [policy.ReportEvery], under name. An empty name is replaced by one that
// is made of the host's name, the process's number and a random word, so that no two clients
// share one.
func WithPolicyFrom(src policy.Source, name string) Option {
	return func(o *options) {
		o.given.Add("WithPolicyFrom")
		o.source, o.name = src, name
	}
}

// Policy returns which policy is in force, and what was done with the last document. It is zero
// if there has been none.
func (c *Client) Policy() policy.Applied { return c.steering.last() }

// steering is what a client did with a document that steers it: its policy, or the overrides of
// its instances.
type steering struct {
	news chan struct{} // has a token when there is something to report; nil if nothing is reported

	mu      sync.Mutex
	applied policy.Applied
}

// record keeps what was done with a document, to be reported, and returns what was kept before.
func (s *steering) record(a policy.Applied) (before policy.Applied) {
	s.mu.Lock()
	before, s.applied = s.applied, a
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
	return before
}

func (s *steering) last() policy.Applied {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.applied
}

// beginRules makes the first rules, of the options and the policy in code.
func (c *Client) beginRules() error {
	p, version := c.opts.fixed, ""
	if p != nil {
		if err := p.Validate(); err != nil {
			return err
		}
		text, err := json.Marshal(p)
		if err != nil {
			return fmt.Errorf("policy: %w", err)
		}
		version = policy.VersionOf(text)
		c.steering.applied = policy.Applied{Version: version, InForce: version, At: time.Now()}
	}
	c.rules.Store(rules.New(c.opts.base(), p, version))
	return nil
}

// followPolicy starts the goroutines that follow the policy of the source and report what was
// applied.
func (c *Client) followPolicy() {
	src := c.opts.source
	if src == nil {
		return
	}
	c.nameItself()
	c.steering.news = make(chan struct{}, 1)
	c.life.Go(func() {
		err := src.Watch(c.life.Context(), c.takePolicy)
		if c.life.Context().Err() == nil {
			c.takePolicy(nil, errors.Join(errors.New("the policy is not followed any more"), err))
		}
	})
	if r, ok := src.(policy.Reporter); ok {
		c.life.Go(func() { c.steering.report(c, r) })
	}
}

// nameItself makes a name for a client that has none. It must be called before anything reports.
func (c *Client) nameItself() {
	if c.opts.name == "" {
		c.opts.name = uniqueName()
	}
}

func uniqueName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%.64s/%d/%.8s", host, os.Getpid(), rand.Text())
}

// takePolicy applies a document, or records why it can't.
func (c *Client) takePolicy(text []byte, err error) {
	a := policy.Applied{Client: c.opts.name, At: time.Now()}
	var p *policy.Policy
	if err == nil {
		a.Version = policy.VersionOf(text)
		p, err = policy.Parse(text)
	}
	if err == nil {
		c.pool.Steer(rules.New(c.opts.base(), p, a.Version))
	} else {
		a.Error = shortened(err)
	}
	a.InForce = c.rules.Load().Version
	before := c.steering.record(a)
	switch same := before.Version == a.Version && before.Error == a.Error; {
	case same:
	case err != nil:
		c.log().Warn("policy not applied; the one before stays", "version", a.Version, "in force", a.InForce, "error", a.Error)
	default:
		c.log().Info("policy applied", "version", a.Version)
	}
}

// shortened returns an error's text, cut to 2000 bytes: a document may have made it long.
func shortened(err error) string {
	const most = 2000
	text := err.Error()
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}

// Times of reports. They are spread, so that thousands of clients of one document don't report
// at the same time.
const (
	reportSpread  = 200 * time.Millisecond
	reportRetry   = 5 * time.Second
	reportTimeout = 5 * time.Second
	withdrawTime  = time.Second // Close waits for it
)

// report reports to the source what has been applied: when it is new, and again before the last
// report expires.
func (s *steering) report(c *Client, r policy.Reporter) {
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
		case <-c.life.Context().Done():
			return
		}
		if !pool.Sleep(c.life.Context(), mathrand.N(reportSpread)) {
			return
		}
		next := policy.ReportEvery
		if a := s.last(); a.Client != "" {
			ctx, cancel := context.WithTimeout(c.life.Context(), reportTimeout)
			reported = true
			err := r.Report(ctx, a)
			cancel()
			if err != nil {
				next = reportRetry
				if text := shortened(err); text != failed && c.life.Context().Err() == nil {
					c.log().Warn("what was applied could not be reported", "error", text)
					failed = text
				}
			} else {
				failed = ""
			}
		}
		wait.Reset(next - mathrand.N(next/4))
	}
}

// withdraw reports that the client has ended, so that operators do not wait for it to apply a new
// document. If the report fails, the last one expires by itself.
func (s *steering) withdraw(r policy.Reporter) {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTime)
	defer cancel()
	a := s.last()
	a.At, a.Ended = time.Now(), true
	_ = r.Report(ctx, a)
}
