package registry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Entry is the place of one instance in a registry, as an adapter writes and
// reads it. [Maintain] calls its methods, one at a time; each returns soon after
// its context has ended.
type Entry interface {
	// Put lists the instance, in place of what this entry has listed before,
	// and ties it to a lease, a session or a time to live, so that it vanishes
	// with the process. It makes all of these anew if they are lost.
	Put(ctx context.Context, in tandem.Instance) error
	// Check renews what ties the instance to the process, and reads back
	// whether it is listed as the last Put has left it; if not it fails.
	Check(ctx context.Context) error
	// Delete takes the instance off, unless somebody else's is listed under its
	// ID, and lets go of everything that Put holds.
	Delete(ctx context.Context) error
}

// ErrSuperseded is what Put and Check of an [Entry] return when an instance that
// started later is listed under the same ID: the server was started anew, and who
// is left of the old one must not fight for the place. It is looked again at the
// next Check, in case the other goes.
var ErrSuperseded = errors.New("an instance that started later is listed under the same id")

// Supersedes reports whether what is listed under an ID must be left alone by who
// wants to list in there: it is another incarnation that started later.
func Supersedes(listed, in *tandem.Instance) bool {
	return listed.Started.After(in.Started) && listed.Incarnation != in.Incarnation
}

// Upkeep says how [Maintain] looks after an entry. Name and Every must be set.
type Upkeep struct {
	Name  string        // of the registry, for errors and the log: "etcd registry"
	Every time.Duration // between two Checks: a third of the time to live
	// Timeout bounds each Put and Check after the first Put, and the Delete. It
	// is 3 s when 0.
	Timeout time.Duration
	// Lost receives when the entry may be lost, so that it is not left until the
	// next Check. It may be nil.
	Lost <-chan struct{}
	Log  *slog.Logger // gets a line when the entry is lost, and restored; may be nil
}

// Pauses between attempts to list an instance again. They are random between zero
// and a ceiling that doubles ("full jitter"; Brooker, "Exponential Backoff And
// Jitter", AWS Architecture Blog), so that thousands of servers that come back to
// a registry together write some hundred times a second. The first ceiling is the
// time between two Checks, in which all of them notice an outage. The last one is a
// little more than the time to live, so that all are listed again five seconds after
// that, also when the last attempt takes its time.
const (
	firstPause = time.Second // at least
	mostPause  = 15 * time.Second
	beyondTTL  = 2 * time.Second
)

// Maintain lists the instance through the entry and keeps it listed, for ever,
// until the Registration is closed. Adapters call it from Register; ctx bounds
// the first attempt.
func Maintain(ctx context.Context, entry Entry, in tandem.Instance, keep Upkeep) (Registration, error) {
	if keep.Timeout <= 0 {
		keep.Timeout = 3 * time.Second
	}
	if keep.Log == nil {
		keep.Log = slog.New(slog.DiscardHandler)
	}
	if err := in.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", keep.Name, err)
	}
	m := &maintained{
		id: in.ID, entry: entry, keep: keep, in: clone(in),
		updates: make(chan update), done: make(chan struct{}),
	}
	m.ctx, m.stop = context.WithCancel(context.Background())
	if err := entry.Put(ctx, clone(in)); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: registering %q: %w", keep.Name, in.ID, err), m.abandon())
	}
	go m.run()
	return m, nil
}

// maintained is a Registration: a goroutine that has the entry to itself.
type maintained struct {
	id      string
	entry   Entry
	keep    Upkeep
	updates chan update
	ctx     context.Context // ends when Close is called
	stop    context.CancelFunc
	done    chan struct{} // the goroutine has ended
	err     error         // of Delete; valid when done is closed

	// Of the goroutine alone.
	in       tandem.Instance // what should be listed
	trouble  error           // why the instance may not be listed; nil while it is
	failures int             // attempts in a row that did not help
}

// update asks the goroutine to list something else.
type update struct {
	ctx    context.Context
	in     tandem.Instance
	result chan<- error // has room for one
}

func (m *maintained) run() {
	defer close(m.done)
	// Servers that were started together are looked after apart from each other.
	pause := rand.N(m.keep.Every) + time.Millisecond
	for ; ; pause = m.pause() {
		next := time.NewTimer(pause)
		select {
		case <-next.C:
			m.tend()
		case <-m.keep.Lost:
			m.tend()
		case u := <-m.updates:
			u.result <- m.replace(u)
		case <-m.ctx.Done():
			next.Stop()
			m.err = m.abandon()
			return
		}
		next.Stop()
	}
}

// pause is the time until the entry is looked after again.
func (m *maintained) pause() time.Duration {
	if m.trouble == nil || errors.Is(m.trouble, ErrSuperseded) {
		return m.keep.Every - rand.N(m.keep.Every/8+1)
	}
	return rand.N(m.ceiling()) + time.Millisecond
}

// ceiling is the longest pause after a number of failures, which is not 0.
func (m *maintained) ceiling() time.Duration {
	first := max(firstPause, m.keep.Every)
	return min(mostPause, 3*m.keep.Every+beyondTTL, first<<min(m.failures-1, 8))
}

// tend checks the entry, and lists the instance again where it is not.
func (m *maintained) tend() {
	ctx, cancel := context.WithTimeout(m.ctx, m.keep.Timeout)
	defer cancel()
	err := m.trouble
	if err == nil || errors.Is(err, ErrSuperseded) {
		if err = m.entry.Check(ctx); err == nil {
			m.report(nil)
			return
		}
	}
	if !errors.Is(err, ErrSuperseded) && ctx.Err() == nil {
		m.lost(err)
		err = m.entry.Put(ctx, clone(m.in))
	}
	m.report(err)
}

// lost logs that the entry is being restored, once for each loss.
func (m *maintained) lost(err error) {
	if m.failures == 0 {
		m.keep.Log.Warn(m.keep.Name+": registration lost; restoring it", "instance", m.id, "error", err)
	}
}

// report notes how the entry is. Trouble and its end get a line in the log.
func (m *maintained) report(err error) {
	switch {
	case err == nil && m.failures > 0:
		m.keep.Log.Info(m.keep.Name+": registration restored", "instance", m.id, "attempts", m.failures)
	case err != nil && m.failures == 1:
		m.keep.Log.Warn(m.keep.Name+": not listed; trying on", "instance", m.id, "error", err)
	}
	m.failures++
	if err == nil {
		m.failures = 0
	}
	m.trouble = err
}

// replace lists something else. If that fails, what was wanted before is what
// will be restored.
func (m *maintained) replace(u update) error {
	err := m.entry.Put(u.ctx, clone(u.in))
	if err == nil {
		m.in = u.in
	}
	m.report(err)
	return err
}

// abandon takes the instance off.
func (m *maintained) abandon() error {
	ctx, cancel := context.WithTimeout(context.Background(), m.keep.Timeout)
	defer cancel()
	if err := m.entry.Delete(ctx); err != nil {
		return fmt.Errorf("%s: taking %q off: %w; it goes when its time to live is over", m.keep.Name, m.id, err)
	}
	return nil
}

// errClosed is why a closed registration is not updated.
var errClosed = errors.New("the registration is closed")

func (m *maintained) Update(ctx context.Context, in tandem.Instance) error {
	if in.ID != m.id {
		return fmt.Errorf("%s: instance %q can't be updated to another id, %q; register that", m.keep.Name, m.id, in.ID)
	}
	if err := in.Validate(); err != nil {
		return fmt.Errorf("%s: %w", m.keep.Name, err)
	}
	if err := m.ask(ctx, clone(in)); err != nil {
		return fmt.Errorf("%s: updating %q: %w", m.keep.Name, in.ID, err)
	}
	return nil
}

// ask has the goroutine list in and waits for the result.
func (m *maintained) ask(ctx context.Context, in tandem.Instance) error {
	ctx, cancel := context.WithTimeout(ctx, m.keep.Timeout)
	defer cancel()
	result := make(chan error, 1)
	select {
	case m.updates <- update{ctx, in, result}:
	case <-m.ctx.Done():
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *maintained) Close() error {
	select {
	case <-m.ctx.Done():
		return nil
	default:
	}
	m.stop()
	<-m.done // Delete is bounded by Timeout
	return m.err
}
