package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem/internal/rules"
	"github.com/tandem-rpc/tandem/internal/steer"
	"github.com/tandem-rpc/tandem/policy"
)

// Self is what the routes of a policy match of the client itself.
type Self struct {
	Caller string // the service that makes the calls (policy.Match.Callers)
	// Zone is where the client runs (policy.Match.Zones, policy.Subset.SameZone). Without it, it is the
	// Zone of the policy's balancer.
	Zone string
}

// WithPolicy sets the policy of the client's calls. It overrides the client's options, and a
// call's own options override it. Changes of p after Dial have no effect. The last self that is
// given counts.
func WithPolicy(p *policy.Policy, self ...Self) Option {
	return func(o *options) {
		o.given.Add("WithPolicy")
		o.fixed = p
		o.takeSelf(self)
	}
}

func (o *options) takeSelf(self []Self) {
	for _, s := range self {
		o.self = rules.Self(s)
	}
}

// WithPolicyFrom makes the client follow a policy until Close. Until the first document has
// come, the policy of [WithPolicy] is in force, if there is one. A document replaces the one
// before as a whole, for calls that begin after it. An invalid document is refused as a whole
// and logged; the one before stays in force, as it does while the source has none. If the
// source is a [policy.Reporter], the client reports the result of each document to it, and
// again at least every [policy.ReportEvery], under name. An empty name is replaced by one that
// is made of the host's name, the process's number and a random word, so that no two clients
// share one. The last self that is given counts.
func WithPolicyFrom(src policy.Source, name string, self ...Self) Option {
	return func(o *options) {
		o.given.Add("WithPolicyFrom")
		o.source, o.name = src, name
		o.takeSelf(self)
	}
}

// Policy returns which policy is in force, and what was done with the last document. It is zero
// if there has been none.
func (c *Client) Policy() policy.Applied { return c.steering.Last() }

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
		c.steering.Record(policy.Applied{Version: version, InForce: version, At: time.Now()})
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
	c.steering.Begin()
	c.life.Go(func() {
		err := src.Watch(c.life.Context(), c.takePolicy)
		if c.life.Context().Err() == nil {
			c.takePolicy(nil, errors.Join(errors.New("the policy is not followed any more"), err))
		}
	})
	if r, ok := src.(policy.Reporter); ok {
		c.life.Go(func() { c.steering.Report(c.life.Context(), r, c.log()) })
	}
}

// nameItself makes a name for a client that has none. It must be called before anything reports.
func (c *Client) nameItself() {
	if c.opts.name == "" {
		c.opts.name = steer.UniqueName()
	}
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
		a.Error = steer.Shortened(err)
	}
	a.InForce = c.rules.Load().Version
	before := c.steering.Record(a)
	switch same := before.Version == a.Version && before.Error == a.Error; {
	case same:
	case err != nil:
		c.log().Warn("policy not applied; the one before stays", "version", a.Version, "in force", a.InForce, "error", a.Error)
	default:
		c.log().Info("policy applied", "version", a.Version)
	}
}
