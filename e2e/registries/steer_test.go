//go:build integration

package registries

import (
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/override"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/history"
)

// follows is how long clients may take to follow a change of overrides.
const follows = 2 * time.Second

// soon waits until calls are answered as good wants, for at most follows, and returns how long
// that took. Each look is at the calls of a tenth of a second.
func (l *load) soon(what string, good func(byWhom map[string]int) bool) {
	l.t.Helper()
	began := time.Now()
	for {
		time.Sleep(100 * time.Millisecond) // it is the length of an experiment with real processes
		by := l.want(what, 100*time.Millisecond)
		if good(by) {
			l.t.Logf("%s: followed within %v", what, time.Since(began).Round(time.Millisecond))
			return
		}
		if time.Since(began) > follows {
			l.t.Errorf("%s: after %v calls are answered by %v", what, time.Since(began), by)
			return
		}
	}
}

// TestSteering disables, drains, weighs and restores instances under load: clients follow within
// two seconds, no call fails, it survives a server that registers again and a registry that is
// down, and the client reports what it has applied. The same for a policy.
func TestSteering(t *testing.T) {
	on(t, func(t *testing.T, c *cluster) {
		target, err := registry.ParseTarget(c.backend.target)
		if err != nil {
			t.Fatal(err)
		}
		e, err := override.NewEditor(resolvers()[target.Scheme], target)
		if err != nil {
			t.Fatal(err)
		}
		ann := override.Request{By: "ann", Why: "a test"}
		set := func(o ...override.Override) {
			t.Helper()
			if _, err := e.Set(t.Context(), ann, o...); err != nil {
				t.Fatal(err)
			}
		}
		l := startLoad(t, c.backend.target, client.WithBalancer(balance.RoundRobin()))
		l.duringUntilAll("control", time.Second, 3)
		without := func(id string) func(map[string]int) bool {
			return func(by map[string]int) bool { return len(by) > 0 && by[id] == 0 }
		}

		set(override.Override{Instance: "b", State: override.Disabled})
		l.soon("b is disabled", without("b"))
		c.stop("b")
		c.start("b")
		c.listed(30*time.Second, "a", "b", "c")
		if by := l.during("b has registered again", time.Second); by["b"] != 0 {
			t.Errorf("b is disabled, and answers: %v", by)
		}
		within(t, follows, "the client's report", func() error { return applied(t, e) })

		set(override.Override{Instance: "b", State: override.Enabled}, override.Override{Instance: "a", Weight: 400})
		l.soon("b is enabled, and a has the weight of four", func(by map[string]int) bool { return by["b"] > 0 && by["a"] > by["b"]+by["c"] })
		if _, err := e.Restore(t.Context(), ann, 1); err != nil {
			t.Fatal(err)
		}
		l.soon("the first revision is restored", func(by map[string]int) bool { return by["b"] == 0 && by["c"] > by["a"]/2 })
		if kept, err := e.Store.Versions(t.Context()); err != nil || len(kept) != 3 || kept[1].By != "ann" {
			t.Errorf("the versions are %+v, %v", kept, err)
		}

		// Last, as a client that has lost its registry asks again after a pause of some seconds.
		c.backend.kill()
		if by := l.during("the registry is down", 2*time.Second); by["b"] != 0 {
			t.Errorf("b is disabled, and answers: %v", by)
		}
		c.backend.start()
		c.listed(ttl+20*time.Second, "a", "b", "c")
		if by := l.during("the registry is back", time.Second); by["b"] != 0 {
			t.Errorf("b is disabled, and answers: %v", by)
		}
	})
}

// applied returns an error unless one client has applied the overrides in force.
func applied(t *testing.T, e *override.Editor) error {
	r, err := e.Rollout(t.Context())
	if err == nil && (len(r.Applied) != 1 || r.Clients() != 1) {
		err = &notYetError{r.String()}
	}
	return err
}

type notYetError struct{ text string }

func (e *notYetError) Error() string { return e.text }

// TestPolicyVersions puts policies, restores one, and sees the client follow each.
func TestPolicyVersions(t *testing.T) {
	on(t, func(t *testing.T, c *cluster) {
		target, err := registry.ParseTarget(c.backend.target)
		if err != nil {
			t.Fatal(err)
		}
		finder, ok := resolvers()[target.Scheme].(registry.DocumentFinder)
		if !ok {
			t.Fatalf("%s finds no documents", target.Scheme)
		}
		documents, _, err := finder.DocumentsOf(target)
		if err != nil {
			t.Fatal(err)
		}
		const key = "/policies/who"
		s := history.Store{Documents: documents.(registry.DocumentWriter), Key: key}
		source := policy.FromRegistry(documents, key)
		l := startLoad(t, c.backend.target, client.WithPolicyFrom(source, "till 7"))
		follow := func(version string) {
			t.Helper()
			within(t, follows, "version "+version, func() error {
				reports, err := source.(policy.Reports).Applied(t.Context())
				if r := policy.RolloutOf(version, reports); err == nil && len(r.Applied) != 1 {
					err = &notYetError{r.String()}
				}
				return err
			})
			if got := l.client.Policy().InForce; got != version {
				t.Errorf("in force is %s, want %s", got, version)
			}
		}
		for i, pick := range []string{"round-robin", "p2c"} {
			if _, err := history.PutPolicy(t.Context(), s, policy.Change{By: "ann"}, &policy.Policy{Balancer: &policy.Balancer{Pick: pick}}); err != nil {
				t.Fatal(err)
			}
			follow([]string{"r1", "r2"}[i])
		}
		if _, err := history.RestorePolicy(t.Context(), s, policy.Change{By: "bob"}, 1); err != nil {
			t.Fatal(err)
		}
		follow("r3")
		now, err := s.Read(t.Context())
		if err != nil || !strings.Contains(now.Text, "round-robin") || now.By != "bob" {
			t.Errorf("in force is %+v, %v", now, err)
		}
		l.want("policies change", time.Second/2)
	})
}
