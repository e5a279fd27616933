package registrytest_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A lossy registry is a Memory whose registrations can be lost, and are restored
// after a while. Each of its faults makes it break one rule.
type lossy struct {
	*registry.Memory
	faults faults

	mu      sync.Mutex
	entries map[string]*lossyEntry
}

// faults are the faults of a lossy registry.
type faults struct {
	neverHeals      bool // a lost registration is not restored
	healsFirst      bool // the first version is restored, not the updated one
	healsClosed     bool // a lost registration is restored after it was closed
	emptyOnOutage   bool // an outage looks like an empty list
	emptyInOutage   bool // an outage is an error, then an empty list
	silentOnOutage  bool // an outage is not delivered
	losesEvent      bool // a removal is not delivered
	losesThird      bool // every third change is not delivered
	goesBack        bool // revisions decrease
	standsStill     bool // revisions do not change
	leaks           bool // Watch leaves a goroutine behind
	neverEnds       bool // Watch does not end with its context
	forgetsTags     bool // metadata is lost
	foldsCase       bool // a and A are the same
	ignoresUpdate   bool // Update does nothing
	closeTwiceFails bool // the second Close is an error
	takesAnything   bool // invalid instances are accepted
	listsDocuments  bool // a document is listed as an instance
	twoKeys         bool // the document of a list depends on the target
	hidesList       bool // the directory lacks the list
}

func newLossy(f faults) *lossy {
	return &lossy{Memory: registry.NewMemory(), faults: f, entries: map[string]*lossyEntry{}}
}

func (l *lossy) harness() registrytest.Harness {
	return registrytest.Harness{Registrar: l, Resolver: l, Aliases: []registry.Target{{Scheme: "memory", Path: "/x"}}, Lose: l.lose, Outage: l.outage, Within: 5 * time.Second}
}

func (l *lossy) outage() (func() error, error) {
	l.Fail(errors.New("down"))
	return func() error { l.Fail(nil); return nil }, nil
}

// lossyEntry is a registration that re-registers when it was lost.
type lossyEntry struct {
	l     *lossy
	first tandem.Instance

	mu     sync.Mutex
	now    tandem.Instance
	inner  registry.Registration
	timer  *time.Timer
	closed bool
}

func (l *lossy) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	if l.faults.foldsCase {
		in.ID = strings.ToLower(in.ID)
	}
	if l.faults.forgetsTags {
		in.Tags = nil
	}
	if l.faults.takesAnything && in.Validate() != nil {
		return &lossyEntry{l: l}, nil
	}
	inner, err := l.Memory.Register(ctx, in)
	if err != nil {
		return nil, err
	}
	e := &lossyEntry{l: l, first: in, now: in, inner: inner}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.entries[in.ID] = e
	return e, nil
}

// lose removes the registration, which is restored after a second.
func (l *lossy) lose(id string) error {
	l.mu.Lock()
	e := l.entries[id]
	l.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inner.Close()
	if !l.faults.neverHeals {
		e.timer = time.AfterFunc(time.Second, e.heal)
	}
	return nil
}

func (e *lossyEntry) heal() {
	e.mu.Lock()
	defer e.mu.Unlock()
	in := e.now
	if e.l.faults.healsFirst {
		in = e.first
	}
	if inner, err := e.l.Memory.Register(context.Background(), in); err == nil {
		e.inner = inner
	}
}

func (e *lossyEntry) Update(ctx context.Context, in tandem.Instance) error {
	if e.l.faults.ignoresUpdate {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.inner.Update(ctx, in)
	if err == nil {
		e.now = in
	}
	return err
}

func (e *lossyEntry) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil && !e.l.faults.healsClosed {
		e.timer.Stop()
	}
	if e.closed && e.l.faults.closeTwiceFails {
		return errors.New("closed twice")
	}
	e.closed = true
	if e.inner == nil {
		return nil
	}
	return e.inner.Close()
}

func (l *lossy) Watch(ctx context.Context, target registry.Target, update func(registry.Snapshot)) error {
	if l.faults.leaks {
		go func() { <-time.After(time.Minute) }()
	}
	seen, last := 0, 0
	err := l.Memory.Watch(ctx, target, func(s registry.Snapshot) {
		seen++
		f := l.faults
		switch {
		case f.emptyOnOutage:
			s.Err, s.Revision = nil, uint64(seen)
		case f.emptyInOutage && s.Err != nil:
			update(registry.Snapshot{Err: s.Err, Revision: uint64(seen)})
			s.Err, s.Revision = nil, uint64(seen)
		case f.emptyInOutage:
			s.Revision = uint64(seen)
		case f.silentOnOutage && s.Err != nil,
			f.losesThird && s.Revision > 0 && s.Revision%3 == 0,
			f.losesEvent && len(s.Instances) < last:
			return
		case f.goesBack:
			s.Revision = 1 << 20 / (1 + s.Revision)
		case f.standsStill:
			s.Revision = 1
		}
		last = len(s.Instances)
		update(s)
	})
	if l.faults.neverEnds {
		<-time.After(time.Minute)
	}
	return err
}

func (l *lossy) Lists(ctx context.Context, target registry.Target) ([]registry.Target, error) {
	if l.faults.hidesList {
		return nil, nil
	}
	return l.Memory.Lists(ctx, target)
}

func (l *lossy) DocumentsOf(target registry.Target) (registry.Documents, string, error) {
	d, key, err := l.Memory.DocumentsOf(target)
	if l.faults.twoKeys {
		key += target.Path
	}
	if l.faults.listsDocuments {
		d = listing{l.Memory}
	}
	return d, key, err
}

// listing is a Memory that lists its documents.
type listing struct{ *registry.Memory }

func (l listing) SwapDocument(ctx context.Context, key string, old, text []byte) error {
	var in tandem.Instance
	if json.Unmarshal(text, &in) == nil && in.Validate() == nil {
		if _, err := l.Register(ctx, in); err != nil {
			return err
		}
	}
	return l.Memory.SwapDocument(ctx, key, old, text)
}

// run runs each check in a synctest bubble, where timeouts take no real time, and
// returns the errors of the checks that fail, by name.
func run(t *testing.T, harness func() registrytest.Harness) map[string]error {
	failed := map[string]error{}
	for _, c := range registrytest.Checks() {
		synctest.Test(t, func(t *testing.T) {
			if err := c.Run(t.Context(), harness()); err != nil {
				failed[c.Name] = err
			}
			<-time.After(time.Hour) // lets remaining goroutines end
		})
	}
	return failed
}

func TestSoundRegistryPasses(t *testing.T) {
	for name, err := range run(t, func() registrytest.Harness { return newLossy(faults{}).harness() }) {
		t.Errorf("%s: %v", name, err)
	}
}

// Each fault must be found by the check for it.
func TestBrokenRegistriesFail(t *testing.T) {
	for _, tc := range []struct {
		name   string
		faults faults
		check  string
		says   string
	}{
		{"emptyOnOutage", faults{emptyOnOutage: true}, "an outage is an error, never an empty list", "no snapshot with an error"},
		{"emptyInOutage", faults{emptyInOutage: true}, "an outage is an error, never an empty list", "an empty list was delivered for the outage"},
		{"silentOnOutage", faults{silentOnOutage: true}, "an outage is an error, never an empty list", "no snapshot with an error"},
		{"losesEvent", faults{losesEvent: true}, "close takes the instance off", "no snapshot with the list"},
		{"losesThird", faults{losesThird: true}, "revisions never go back", "no snapshot with"},
		{"neverHeals", faults{neverHeals: true}, "a lost registration heals", "no snapshot with the list"},
		{"healsFirst", faults{healsFirst: true}, "an updated registration heals as updated", "no snapshot with"},
		{"healsClosed", faults{healsClosed: true}, "a closed registration does not heal", "no snapshot with the list"},
		{"goesBack", faults{goesBack: true}, "revisions never go back", "the revision went back"},
		{"standsStill", faults{standsStill: true}, "an instance registered is seen", "its revision stayed 1"},
		{"leaks", faults{leaks: true}, "a watch that ends releases everything", "found unexpected goroutines"},
		{"neverEnds", faults{neverEnds: true}, "a watch that ends releases everything", "Watch does not return"},
		{"forgetsTags", faults{forgetsTags: true}, "metadata arrives as it was", "no snapshot with"},
		{"foldsCase", faults{foldsCase: true}, "odd ids", "registering"},
		{"ignoresUpdate", faults{ignoresUpdate: true}, "an update is seen", "no snapshot with"},
		{"closeTwiceFails", faults{closeTwiceFails: true}, "a second close does nothing", "closed twice"},
		{"listsDocuments", faults{listsDocuments: true}, "the document of a list is beside it", "no snapshot with the list"},
		{"twoKeys", faults{twoKeys: true}, "the document of a list is beside it", "the document of the same list"},
		{"hidesList", faults{hidesList: true}, "the directory has the list", "there are []"},
		{"takesAnything", faults{takesAnything: true}, "an invalid instance is refused", "was not refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			failed := run(t, func() registrytest.Harness { return newLossy(tc.faults).harness() })
			err := failed[tc.check]
			if err == nil {
				t.Fatalf("the check %q passes", tc.check)
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v; want %q", err, tc.says)
			}
		})
	}
}

// Missing names the function that a harness lacks, and Run fails for a check that needs
// it.
func TestMissingCapabilities(t *testing.T) {
	m := registry.NewMemory()
	h := registrytest.Harness{Registrar: m, Resolver: m}
	missing := map[string]int{}
	for _, c := range registrytest.Checks() {
		if lacks := c.Missing(h); lacks != "" {
			missing[lacks]++
			if err := c.Run(t.Context(), h); err == nil || !strings.Contains(err.Error(), lacks) {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	}
	if missing["Lose"] != 3 || missing["Outage"] != 3 {
		t.Errorf("missing: %v", missing)
	}
}
