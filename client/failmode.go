package client

import (
	"context"
	"errors"
	"slices"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/call"
	"github.com/tandem-rpc/tandem/internal/session"
)

// The fail modes, as [WithFailMode] and [FailMode] take them.
const (
	// Failfast returns the first error.
	Failfast = tandem.Failfast
	// Failover tries another instance.
	Failover = tandem.Failover
	// Failtry tries the same instance again.
	Failtry = tandem.Failtry
	// Failsafe swallows the error: the call succeeds, the reply stays as it was.
	Failsafe = tandem.Failsafe
	// Failback queues a call that failed, and tries it again in the background:
	// see [WithFailback].
	Failback = tandem.Failback
	// Broadcast makes the call at every instance: see [WithBroadcast].
	Broadcast = tandem.Broadcast
	// Fork makes the call at several instances, and the first response wins: see
	// [WithFork].
	Fork = tandem.Fork
	// Backup is Failover that also makes a second attempt, at another instance,
	// while the first takes longer than usual: see [WithBackup].
	Backup = tandem.Backup

	failModes = tandem.Backup + 1
)

func (c *Client) failMode(m tandem.FailMode) tandem.Interceptor {
	switch m {
	case Failover:
		return c.failover
	case Failtry:
		return c.failtry
	case Failsafe:
		return c.failsafe
	case Failback:
		return c.failback
	case Broadcast:
		return c.broadcast
	case Fork:
		return c.fork
	case Backup:
		return func(next tandem.Func) tandem.Func { return c.failover(c.hedge(next)) }
	}
	return failfast
}

// parallel reports whether a fail mode makes several attempts at a time.
func parallel(m tandem.FailMode) bool { return m == Broadcast || m == Fork || m == Backup }

// failfast makes one attempt.
func failfast(next tandem.Func) tandem.Func { return next }

// timedOrElsewhere is part of every fail mode: it applies the attempt timeout, and makes an
// attempt that was not sent at another instance. It is one Func instead of two nested ones, to
// keep the stack of a waiting caller small: the garbage collector scans it. bare says that next
// is only pool.attempt, which is then called directly.
func (c *Client) timedOrElsewhere(next tandem.Func, bare bool) tandem.Func {
	const most = 8 // other instances
	return func(ctx context.Context, call *tandem.Call) (err error) {
		for n := 0; ; n++ {
			switch d := c.attemptTime(call); {
			case d > 0:
				err = attemptWithin(ctx, call, d, next)
			case bare:
				err = c.pool.Attempt(ctx, call)
			default:
				err = next(ctx, call)
			}
			if err == nil || n == most || !elsewhere(call, err) {
				return err
			}
		}
	}
}

// elsewhere reports whether a failed attempt is made at another instance without the retry
// budget: a draining server refused it, or it was not sent, so nothing ran and no server is
// overloaded. It excludes the instance, so each is tried at most once.
func elsewhere(call *tandem.Call, err error) bool {
	id := call.Peer.Instance
	if call.Pin != "" || slices.Contains(call.Exclude, id) || !errors.Is(err, session.ErrDraining) {
		return false
	}
	call.Exclude = append(call.Exclude, id)
	return true
}

// outgoing is [call.OutgoingOf], for functions with a variable named call.
func outgoing(attempt *tandem.Call) (*call.Outgoing, bool) { return call.OutgoingOf(attempt) }

// concluded tells the call's Outgoing how an attempt has ended: an interceptor or a plugin may
// have returned an error although a response came.
func concluded(attempt *tandem.Call, err error) {
	o, ok := outgoing(attempt)
	switch {
	case !ok:
	case err == nil:
		o.Accept(attempt)
	default:
		o.Refuse(attempt)
	}
}
