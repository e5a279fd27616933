// Package registry says how servers are listed and found: a [Registrar] lists
// an instance, a [Resolver] watches a list. Adapters for particular registries
// live below it; every one of them passes registrytest.
package registry

import (
	"context"

	"github.com/tandem-rpc/tandem"
)

// Registrar lists instances. It is safe for concurrent use.
type Registrar interface {
	// Register lists the instance and keeps it listed, by itself and for
	// ever, until the Registration is closed: after any loss of a lease, a
	// session, a key or the registry's server it registers again. ctx bounds
	// the first attempt only.
	Register(ctx context.Context, in tandem.Instance) (Registration, error)
}

// Registration is one listed instance. It is safe for concurrent use.
type Registration interface {
	// Update replaces what is listed under the same ID.
	Update(ctx context.Context, in tandem.Instance) error
	// Close takes the instance off the list and releases everything. A
	// second Close does nothing.
	Close() error
}

// Resolver finds instances. It is safe for concurrent use.
type Resolver interface {
	// Watch delivers the current list and then every change of it to update,
	// one call at a time, until ctx ends; then it returns ctx's error, having
	// released everything. It returns early only for a target that can never
	// work. When the registry fails it keeps trying, delivers a Snapshot with
	// Err set, and the receiver keeps the last good list.
	Watch(ctx context.Context, target Target, update func(Snapshot)) error
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
