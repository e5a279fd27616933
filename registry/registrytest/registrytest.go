// Package registrytest is the conformance suite for registries. An adapter's
// test runs it against the real thing:
//
//	func TestConformance(t *testing.T) {
//		registrytest.Run(t, func(t testing.TB) registrytest.Harness {
//			r := startRegistry(t) // with an empty list
//			return registrytest.Harness{Registrar: r, Resolver: r, Target: r.target}
//		})
//	}
//
// The suite is tested too: its own tests hand it registries that are broken on
// purpose and want it to find out.
package registrytest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// Harness is a registry under test: one list, empty at first, as seen by those
// who register and by those who watch. Lose and Outage are optional; what needs
// them is skipped, with a line in the test's log, when they are nil.
type Harness struct {
	Registrar registry.Registrar
	Resolver  registry.Resolver
	Target    registry.Target // names the list

	// Lose takes a registered instance off the list behind the registrar's
	// back: deletes its key, revokes its lease, ends its session.
	Lose func(id string) error

	// Outage makes the registry unreachable, or unable to answer, and returns
	// the function that ends that, its data intact.
	Outage func() (end func() error, err error)

	// Within is how long anything may take to be seen; 5 s when it is 0.
	Within time.Duration
}

func (h Harness) within() time.Duration {
	if h.Within <= 0 {
		return 5 * time.Second
	}
	return h.Within
}

// Check is one rule of the suite.
type Check struct {
	Name string

	run    func(s *session)
	lose   bool // needs Lose
	outage bool // needs Outage
}

// Missing names the capability that h lacks for this check, "" if it lacks
// none.
func (c Check) Missing(h Harness) string {
	switch {
	case c.lose && h.Lose == nil:
		return "Lose"
	case c.outage && h.Outage == nil:
		return "Outage"
	}
	return ""
}

// Run applies the check and returns what is wrong with the registry. It leaves
// nothing registered and nothing running.
func (c Check) Run(ctx context.Context, h Harness) error {
	if m := c.Missing(h); m != "" {
		return fmt.Errorf("%s: the harness has no %s", c.Name, m)
	}
	s := newSession(ctx, h)
	c.run(s)
	if err := s.end(); err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	return nil
}

// Run applies every check to a harness of its own, each as a subtest. open
// makes a harness whose list is empty; what it opens it closes by t.Cleanup.
func Run(t *testing.T, open func(t testing.TB) Harness) {
	t.Helper()
	for _, c := range Checks() {
		t.Run(c.Name, func(t *testing.T) {
			h := open(t)
			if m := c.Missing(h); m != "" {
				t.Logf("not checked: the harness has no %s", m)
				return
			}
			if err := c.Run(t.Context(), h); err != nil {
				t.Error(err)
			}
		})
	}
}
