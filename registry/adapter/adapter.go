// Package adapter (stable) has what registries are made of. Programs that use a registry do
// not need it; package registry says what a registry does.
//
// # Listing
//
// An adapter implements [Entry], the place of one instance in its registry: Put, Check and
// Delete. Its Register is a call of [Maintain], which lists the instance again after the loss
// of a lease, a session, a key or the registry's server. [Encode] and [Decode] are the usual
// format of an entry, and [Supersedes] tells an instance that was restarted from an old one.
//
// # Finding
//
// Watch is a call of [Follower.Follow] for a registry that reports changes: the adapter's
// session reads the list into a [Mirror] and applies the changes to it. A resolver that reads
// whole lists gives them to a [Feed], which delivers them when they have changed. Documents are
// watched by a [DocumentFollower]. [Shared] shares one connection between all watches and
// registrations.
//
// # Keeping
//
// A client has a [Keeper] between the resolver and its own list. It keeps the last good list
// during an outage, drops invalid instances, and keeps the instances of a list that has
// suddenly collapsed for a while.
//
// The example of this package is a whole registry. The tests of every adapter run the suite of
// registry/registrytest.
package adapter
