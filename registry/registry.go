// Package registry says how servers are listed and found: a [Registrar] lists
// an instance, a [Resolver] watches a list. Adapters for particular registries
// live below it; every one of them passes registrytest.
//
// # Finding
//
// A [Target] such as static://a:1,b:2 names a list; its scheme selects the
// Resolver. Built in are [Single] (tcp://, unix://, and any other transport),
// [Static] (static://), [DNS] (dns://) and [Memory]; package registry/file needs
// no server either.
//
// # Believing
//
// A registry that fails, or comes back with its data lost, must not take the
// calls down with it. A [Keeper] stands between a Resolver and its user: it
// keeps the last good list through an outage, drops what can't be right, and
// doubts a list that has suddenly collapsed.
package registry

import (
	"context"
	"errors"

	"github.com/tandem-rpc/tandem"
)

// MaxInstances is the largest number of instances of one list. What a
// registry holds beyond it is dropped.
const MaxInstances = 5000

// ErrTaken is what Register fails with when another server is known to be listed
// under the same ID, and the registry does not let the later one take its place.
var ErrTaken = errors.New("another live server has registered the same id; stop it or choose another id")

// Registrar lists instances. It is safe for concurrent use.
type Registrar interface {
	// Register lists the instance and keeps it listed, by itself and for
	// ever, until the Registration is closed: after any loss of a lease, a
	// session, a key or the registry's server it registers again. ctx bounds
	// the first attempt only. An instance that is not valid is refused; the
	// caller may change it once Register has returned.
	Register(ctx context.Context, in tandem.Instance) (Registration, error)
}

// Registration is one listed instance. It is safe for concurrent use.
type Registration interface {
	// Update replaces what is listed under the same ID; another ID is
	// refused. When it fails, what was listed before stays listed. After
	// Close it fails.
	Update(ctx context.Context, in tandem.Instance) error
	// Close takes the instance off the list and releases everything, even
	// when it returns an error. A second Close does nothing.
	Close() error
}

// Resolver finds instances. It is safe for concurrent use.
type Resolver interface {
	// Watch delivers the current list and then every change of it to update,
	// one call at a time, until ctx ends; then it returns ctx's error, having
	// released everything. It returns early only for a target that can never
	// work. When the registry fails it keeps trying, delivers a Snapshot with
	// Err set, and the receiver keeps the last good list. Changes that follow
	// each other closely may be delivered as one.
	Watch(ctx context.Context, target Target, update func(Snapshot)) error
}

// Checker is implemented by a [Resolver] that can tell at once, without asking
// anybody, whether a target can work: a client then refuses it when it dials.
// The error is the one that Watch would return.
type Checker interface {
	Check(target Target) error
}

// Poller is implemented by a [Resolver] that asks for the list from time to time, as
// nobody tells it of changes.
type Poller interface {
	Resolver
	// Poll is Watch, and asks sooner when now receives: who uses the list can
	// reach nothing on it. If that goes on, it asks less and less often, in the
	// end as seldom as it would by itself.
	Poll(ctx context.Context, target Target, now <-chan struct{}, update func(Snapshot)) error
}

// Fixed is implemented by a [Resolver] whose lists never change: who wants one need
// not watch it.
type Fixed interface {
	Resolver
	// List returns the list of a target, the one that Watch would deliver, or the
	// error that Watch would return. It neither waits nor asks anybody.
	List(target Target) ([]tandem.Instance, error)
}

// Snapshot is the whole list at one time. The receiver must not change it.
type Snapshot struct {
	Instances []tandem.Instance
	// Revision grows with every change; it never goes backwards in one Watch.
	Revision uint64
	// Err says that the registry could not be read. Instances is then empty
	// and means nothing.
	Err error
}
