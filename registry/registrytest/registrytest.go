// Package registrytest (experimental) is the conformance suite for registries. An adapter's
// test runs it against a real registry:
//
//	func TestConformance(t *testing.T) {
//		registrytest.Run(t, func(t testing.TB) registrytest.Harness {
//			r := startRegistry(t) // with an empty list
//			return registrytest.Harness{Registrar: r, Resolver: r, Target: r.target}
//		})
//	}
//
// The suite has tests of its own, which check that it fails for registries with
// deliberate faults.
package registrytest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// Harness is a registry under test: one list, empty at first, and the registrar
// and the resolver for it. Lose and Outage are optional; when one is nil, the
// checks that need it are skipped, with a line in the test's log.
type Harness struct {
	Registrar registry.Registrar
	Resolver  registry.Resolver
	Target    registry.Target // names the list

	// Lose removes a registered instance from the list without the registrar:
	// it deletes its key, revokes its lease or ends its session.
	Lose func(id string) error

	// Outage makes the registry unreachable, or unable to answer, and returns
	// the function that ends the outage. The registry must keep its data.
	Outage func() (end func() error, err error)

	// Aliases are other targets of the same list, with other options; optional. If the
	// resolver is a [registry.DocumentFinder], they must have the same document.
	Aliases []registry.Target

	// PutDocument writes a document without the registry under test; an empty text
	// deletes it. Optional: documents are swapped when it is nil.
	PutDocument func(key string, text []byte) error

	// Within is the longest time until a change is seen, and of a call; 5 s when
	// it is 0.
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

	run       func(s *session)
	lose      bool // needs Lose
	outage    bool // needs Outage
	documents bool // needs a resolver that is a registry.DocumentFinder
	directory bool // needs a resolver that is a registry.Directory
}

// Missing returns the name of the function that the check needs and h, or its resolver,
// lacks, or "" if h can run the check.
func (c Check) Missing(h Harness) string {
	switch {
	case c.lose && h.Lose == nil:
		return "Lose"
	case c.outage && h.Outage == nil:
		return "Outage"
	}
	if _, ok := h.Resolver.(registry.DocumentFinder); c.documents && !ok {
		return "DocumentsOf"
	}
	if _, ok := h.Resolver.(registry.Directory); c.directory && !ok {
		return "Lists"
	}
	return ""
}

// Run applies the check and returns the first failure. It leaves nothing
// registered and nothing running.
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

// Run runs each check as a subtest with a new harness. open returns a harness
// whose list is empty, and closes by t.Cleanup what it has opened.
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
