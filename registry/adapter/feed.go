package adapter

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// Feed turns what a resolver reads from its registry into the snapshots that
// its watcher sees: sorted by ID, numbered, and delivered only when something
// has changed. A resolver makes one for each Watch and may therefore read as
// often as it likes. It is not safe for concurrent use.
type Feed struct {
	update   func(registry.Snapshot)
	last     []tandem.Instance // the list delivered last
	revision uint64            // revision of last; 0 before the first list
	failing  bool              // an Err was delivered after last
}

// NewFeed returns a Feed that delivers to update.
func NewFeed(update func(registry.Snapshot)) *Feed { return &Feed{update: update} }

// List delivers the list if it differs from the last one, or if the last
// delivery was a failure. The Feed keeps a copy of the slice.
func (f *Feed) List(instances []tandem.Instance) {
	list := slices.SortedStableFunc(slices.Values(instances), byID)
	same := f.revision > 0 && slices.EqualFunc(list, f.last, equal)
	if same && !f.failing {
		return
	}
	if !same {
		f.last = list
		f.revision++
	}
	f.failing = false
	f.update(registry.Snapshot{Instances: f.last, Revision: f.revision})
}

// Fail delivers err. A resolver calls it for every failed attempt.
func (f *Feed) Fail(err error) {
	f.failing = true
	f.update(registry.Snapshot{Revision: f.revision, Err: err})
}

func byID(a, b tandem.Instance) int { return cmp.Compare(a.ID, b.ID) }

// equal compares every field. It does not use reflection because it runs over
// whole lists several times a second; a test finds a forgotten field.
func equal(a, b tandem.Instance) bool {
	return a.ID == b.ID && a.Weight == b.Weight &&
		a.Version == b.Version && a.Zone == b.Zone && a.Group == b.Group &&
		a.Started.Equal(b.Started) && a.Incarnation == b.Incarnation &&
		equalTo(a.Position, b.Position) && equalLoads(a.Load, b.Load) &&
		slices.Equal(a.Endpoints, b.Endpoints) &&
		slices.Equal(a.Services, b.Services) &&
		maps.Equal(a.Tags, b.Tags)
}

// equalTo reports whether both are nil, or point to equal values.
func equalTo[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func equalLoads(a, b *tandem.Load) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	sameTime := x.At.Equal(y.At)
	x.At, y.At = time.Time{}, time.Time{}
	return sameTime && x == y
}
