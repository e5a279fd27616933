package client

import (
	"cmp"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/policy"
)

// Attempts says how the attempts of calls are made, for [WithAttempts]. A field that is zero has
// its default, or what an earlier option has set. All but Timeout and Budget act in the fail mode
// of their name only.
type Attempts struct {
	// Timeout bounds each attempt; by default only the call's deadline does. An attempt that takes
	// longer fails with DeadlineExceeded, and its handler's context ends. Fail modes that retry then
	// retry a call that is [Idempotent], has a [Key], or was not sent. Streams have no such bound.
	Timeout time.Duration

	// Budget bounds all retries of the client, the second attempts of [Backup] and the later ones
	// of [Failback] among them: a share of the calls that succeed, and some a second. The default
	// is 0.1 and 10; with a zero Budget there are no retries.
	Budget *policy.Budget

	// Fork is the number of instances at which a call with [Fork] is made; 2 by default.
	Fork int

	// BackupShare bounds the second attempts that [Backup] makes of slow calls to a share of the
	// calls; 0.05 by default, which is 5 %. They use the Budget, too.
	BackupShare float64

	// BroadcastShare is the share of the instances that must succeed for a call with [Broadcast]
	// to succeed, at least one instance; 1 by default, which is all. BroadcastAtOnce is how many
	// instances are called at a time; 64 by default.
	BroadcastShare  float64
	BroadcastAtOnce int

	// Failback is the queue of calls that [Failback] tries again.
	Failback FailbackQueue
}

// FailbackQueue holds the calls that [Failback] tries again in the background.
type FailbackQueue struct {
	Size  int           // calls that may wait; 100 by default
	Tries int           // further attempts at each call; 3 by default
	Pause time.Duration // pause before the first further attempt; 5 s by default. Each later pause is twice as long, up to five minutes; all vary at random by up to a half

	// GiveUp is called for each call that is given up: its last attempt failed, the queue was full
	// (then the caller gets the error, too), or the client was closed. It must be safe for
	// concurrent use; Close waits for it. The call's arguments are gone: put what GiveUp needs of
	// them into the call's Metadata.
	GiveUp func(call *tandem.Call, err error)
}

// WithAttempts says how the attempts of calls are made.
func WithAttempts(a Attempts) Option {
	return func(o *options) {
		o.want(a.Timeout >= 0, "WithAttempts: Timeout", a.Timeout, "0, for none, or more")
		if a.Timeout != 0 {
			o.given.Add("WithAttempts: Timeout")
			o.attemptTimeout = a.Timeout
		}
		if b := a.Budget; b != nil {
			o.given.Add("WithAttempts: Budget")
			o.want(b.Share >= 0 && b.PerSecond >= 0, "WithAttempts: Budget", *b, "a share and a rate of 0 or more")
			o.budgetShare, o.budgetRate = b.Share, b.PerSecond
		}
		if a.Fork != 0 {
			o.want(a.Fork > 0, "WithAttempts: Fork", a.Fork, "one instance at least")
			o.forks = max(1, a.Fork)
			o.needModeFor("WithAttempts: Fork")
		}
		if a.BackupShare != 0 {
			o.backupShare = o.share("WithAttempts: BackupShare", a.BackupShare)
		}
		if a.BroadcastShare != 0 {
			o.broadcastShare = o.share("WithAttempts: BroadcastShare", a.BroadcastShare)
		}
		if a.BroadcastAtOnce != 0 {
			o.want(a.BroadcastAtOnce > 0, "WithAttempts: BroadcastAtOnce", a.BroadcastAtOnce, "one at least")
			o.broadcastAtOnce = max(1, a.BroadcastAtOnce)
			o.needModeFor("WithAttempts: BroadcastAtOnce")
		}
		a.Failback.set(o)
	}
}

// share returns a share, which acts in one fail mode only, between 0 and 1.
func (o *options) share(name string, share float64) float64 {
	o.want(share > 0 && share <= 1, name, share, "more than 0, and 1 at most")
	o.needModeFor(name)
	return min(max(0, share), 1)
}

// needModeFor notes that an option was given that acts in some fail modes only.
func (o *options) needModeFor(name string) {
	o.given.Add(name)
	o.needMode = append(o.needMode, name)
}

func (q *FailbackQueue) set(o *options) {
	if q.Size == 0 && q.Tries == 0 && q.Pause == 0 && q.GiveUp == nil {
		return
	}
	o.want(q.Size >= 0 && q.Tries >= 0 && q.Pause >= 0, "WithAttempts: Failback", [3]any{q.Size, q.Tries, q.Pause}, "0 or more of each")
	o.needModeFor("WithAttempts: Failback")
	o.failbackQueue, o.failbackTries = max(0, cmp.Or(q.Size, o.failbackQueue)), max(0, cmp.Or(q.Tries, o.failbackTries))
	o.failbackPause = max(cmp.Or(q.Pause, o.failbackPause), time.Millisecond)
	if q.GiveUp != nil {
		o.giveUp = q.GiveUp
	}
}
