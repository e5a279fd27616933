// Package registry (stable) says how servers are listed and found: a [Registrar] lists
// an instance, a [Resolver] watches a list. The packages below it are adapters for
// particular registries; every one of them passes registrytest.
//
// # Finding
//
// A [Target] such as static://a:1,b:2 names a list; its scheme selects the
// Resolver. [Single] (tcp://, unix://, and any other transport), [Static]
// (static://), [Memory] and the packages registry/dns and registry/file need no
// server of their own.
//
// # Outages
//
// A registry that fails, or comes back with its data lost, does not make calls fail: a
// client keeps the last good list.
//
// # A registry of one's own
//
// Package registry/adapter has what registries and their clients are made of.
package registry

import (
	"context"
	"errors"

	"github.com/tandem-rpc/tandem"
)

// MaxInstances is the largest number of instances of one list. Further
// instances are dropped.
const MaxInstances = 20_000

// ErrTaken is the error of Register when another server is known to be listed under
// the same ID, and the registry does not let the later server replace it.
var ErrTaken = errors.New("another live server has registered the same id; stop it or choose another id")

// ErrSuperseded is the error of Register and Update when an instance that started later is
// listed under the same ID: the server was restarted, and the old process must not overwrite
// the entry of the new one.
var ErrSuperseded = errors.New("an instance that started later is listed under the same id")

// Registrar lists instances. It is safe for concurrent use.
type Registrar interface {
	// Register lists the instance and keeps it listed until the Registration
	// is closed: after the loss of a lease, a session, a key or the registry's
	// server it registers the instance again. ctx bounds the first attempt
	// only. Register fails for an instance that is not valid. The caller may
	// change the instance once Register has returned.
	Register(ctx context.Context, in tandem.Instance) (Registration, error)
}

// Registration is one listed instance. It is safe for concurrent use.
type Registration interface {
	// Update replaces the listed instance by one with the same ID, and fails
	// for another ID. When it fails, the instance stays listed as before.
	// After Close it fails.
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
	// work. When the registry fails, Watch delivers a Snapshot with Err set
	// and keeps trying; the receiver keeps the last good list. Changes that
	// follow each other closely may be delivered as one.
	Watch(ctx context.Context, target Target, update func(Snapshot)) error
}

// Checker is implemented by a [Resolver] that can check without any request
// whether a target can work: a client then refuses a bad target when it dials.
type Checker interface {
	// Check returns the error that Watch would return early, or nil.
	Check(target Target) error
}

// Fixed is implemented by a [Resolver] whose lists never change, so that there is no
// need to watch them.
type Fixed interface {
	Resolver
	// List returns the list that Watch would deliver, or the error that Watch would
	// return. It does not block and sends no request.
	List(target Target) ([]tandem.Instance, error)
}

// Snapshot is the whole list at one time. The receiver must not change it.
type Snapshot struct {
	Instances []tandem.Instance
	// Revision grows with every change and never decreases within one Watch.
	Revision uint64
	// Err is set when the registry could not be read. Instances is then empty
	// and has no meaning.
	Err error
}

// List returns the list of a target as the registry has it now. It fails when the registry
// can't be read, and when ctx ends before.
func List(ctx context.Context, r Resolver, target Target) ([]tandem.Instance, error) {
	if fixed, ok := r.(Fixed); ok {
		return fixed.List(target)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var first *Snapshot
	err := r.Watch(ctx, target, func(s Snapshot) {
		if first == nil {
			first = &s
			cancel()
		}
	})
	switch {
	case first == nil:
		return nil, err
	case first.Err != nil:
		return nil, first.Err
	}
	return first.Instances, nil
}
