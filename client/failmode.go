package client

import "github.com/tandem-rpc/tandem"

// The fail modes, as [WithFailMode] and [FailMode] take them.
const (
	// Failfast returns the first error.
	Failfast = tandem.Failfast
	// Failover tries another instance.
	Failover = tandem.Failover
	// Failtry tries the same instance again.
	Failtry = tandem.Failtry
	// Failsafe ignores the error: the call succeeds, and the reply stays as it was.
	Failsafe = tandem.Failsafe
	// Failback queues a call that failed, and tries it again in the background:
	// see [FailbackQueue].
	Failback = tandem.Failback
	// Broadcast makes the call at every instance: see [Attempts].
	Broadcast = tandem.Broadcast
	// Fork makes the call at several instances, and the first response wins: see
	// [Attempts].
	Fork = tandem.Fork
	// Backup is Failover that also makes a second attempt, at another instance,
	// while the first takes longer than usual: see [Attempts].
	Backup = tandem.Backup
)
