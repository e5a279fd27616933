// Package failmode makes the attempts of a call: what a client does when one fails or takes
// long. Every fail mode is an interceptor, in a file of its own.
package failmode

import (
	"log/slog"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/call"
	"github.com/tandem-rpc/tandem/internal/pool"
	"github.com/tandem-rpc/tandem/resilience"
)

// Config is what the fail modes need to know of a client. Its settings are those of package
// client's Attempts, which documents them.
type Config struct {
	Pool   *pool.Pool
	Life   *pool.Life
	Budget *resilience.Budget // the retry budget
	Log    *slog.Logger

	Backoff         resilience.Backoff                 // pauses between the attempts of Failtry
	Forks           int                                // number of instances at which a call with Fork is made
	BroadcastShare  float64                            // share of the instances that must succeed
	BroadcastAtOnce int                                // number of instances that are called at a time
	BackupShare     float64                            // share of the calls that may get a second attempt
	FailbackQueue   int                                // number of calls that may wait
	FailbackTries   int                                // number of further attempts at each of those calls
	FailbackPause   time.Duration                      // pause before the first further attempt
	FailbackTimeout time.Duration                      // timeout of the attempts at a call without a deadline
	GiveUp          func(call *tandem.Call, err error) // may be nil
}

// Modes are the fail modes of one client. They are safe for concurrent use.
type Modes struct {
	cfg     Config
	hedges  hedging
	backlog backlog
}

// Count is the number of fail modes, tandem.FailDefault included.
const Count = tandem.Backup + 1

// Init makes m ready for use. It must be called once, before anything else.
func (m *Modes) Init(cfg Config) {
	m.cfg = cfg
	m.hedges.init(cfg.BackupShare)
}

// Close waits, at most that long, for the calls that Failback makes in the background. The
// context of the Life must have ended. Its error says which were not made.
func (m *Modes) Close(wait time.Duration) error { return m.backlog.close(wait) }

// Mode returns the interceptor of a fail mode, around [Modes.Attempt].
func (m *Modes) Mode(mode tandem.FailMode) tandem.Interceptor {
	switch mode {
	case tandem.Failover:
		return m.failover
	case tandem.Failtry:
		return m.failtry
	case tandem.Failsafe:
		return m.failsafe
	case tandem.Failback:
		return m.failback
	case tandem.Broadcast:
		return m.broadcast
	case tandem.Fork:
		return m.fork
	case tandem.Backup:
		return func(next tandem.Func) tandem.Func { return m.failover(m.hedge(next)) }
	}
	return failfast
}

// Parallel reports whether a fail mode makes several attempts at a time.
func Parallel(mode tandem.FailMode) bool {
	return mode == tandem.Broadcast || mode == tandem.Fork || mode == tandem.Backup
}

// failfast makes one attempt.
func failfast(next tandem.Func) tandem.Func { return next }

// outgoing is [call.OutgoingOf], for functions with a variable named call.
func outgoing(attempt *tandem.Call) (*call.Outgoing, bool) { return call.OutgoingOf(attempt) }

// concluded records in the call's Outgoing how an attempt has ended: an interceptor or a plugin
// may have returned an error although a response came.
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
