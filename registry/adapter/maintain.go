package adapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// Entry is the place of one instance in a registry, as an adapter writes and
// reads it. [Maintain] calls its methods, one at a time; each returns soon after
// its context has ended.
//
// Put and Check fail with [registry.ErrSuperseded] when an instance that started later
// is listed under the same ID. Check is called again after the usual time, in case the
// other instance has gone.
type Entry interface {
	// Put lists the instance, replaces the version that this entry has listed
	// before, and ties it to a lease, a session or a time to live, so that it
	// vanishes with the process. Put creates a lost lease or session again.
	Put(ctx context.Context, in tandem.Instance) error
	// Check renews the lease, the session or the time to live. It fails unless
	// the registry lists the instance as the last Put has written it.
	Check(ctx context.Context) error
	// Delete removes the instance from the list, unless an instance of another
	// process is listed under its ID, and releases everything that Put holds.
	Delete(ctx context.Context) error
}

// Supersedes reports whether listed, the instance that is listed under the ID of in,
// must not be replaced by in: it is another incarnation, which started later.
func Supersedes(listed, in *tandem.Instance) bool {
	return listed.Started.After(in.Started) && listed.Incarnation != in.Incarnation
}

// Upkeep configures [Maintain]. Name and Every must be set.
type Upkeep struct {
	Name  string        // name of the registry, for errors and the log: "etcd registry"
	Every time.Duration // time between two Checks: a third of the time to live
	// Timeout bounds each Put and Check after the first Put, and the Delete. It
	// is 3 s when 0.
	Timeout time.Duration
	// Lost receives when the entry may be lost, so that it is checked at once. It
	// may be nil.
	Lost <-chan struct{}
	Log  *slog.Logger // gets a line when the entry is lost, and restored; may be nil
}

// Pauses between attempts to list an instance again. They are random between zero
// and a ceiling that doubles ("full jitter"; Brooker, "Exponential Backoff And
// Jitter", AWS Architecture Blog), so that thousands of servers that return to a
// registry at the same time make some hundreds of writes a second. The first ceiling
// is the time between two Checks, in which all of them notice an outage. The last one
// is the time to live and beyondTTL, at most mostPause, so that with attempts of up to
// 3 s all are listed again within the time to live and five seconds.
const (
	firstPause = time.Second      // lower limit of the first ceiling
	mostPause  = 15 * time.Second // upper limit of every ceiling
	beyondTTL  = 2 * time.Second
)

// Maintain lists the instance through the entry and keeps it listed until the
// Registration is closed. Adapters call it from Register; ctx bounds the first
// attempt only.
func Maintain(ctx context.Context, entry Entry, in tandem.Instance, keep Upkeep) (registry.Registration, error) {
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
		id: in.ID, entry: entry, keep: keep, in: in.Clone(),
		updates: make(chan update), done: make(chan struct{}),
	}
	m.ctx, m.stop = context.WithCancel(context.Background())
	if err := entry.Put(ctx, in.Clone()); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: registering %q: %w", keep.Name, in.ID, err), m.deleteEntry())
	}
	go m.run()
	return m, nil
}

// maintained is a Registration. Its goroutine is the only user of the entry.
type maintained struct {
	id      string
	entry   Entry
	keep    Upkeep
	updates chan update
	ctx     context.Context // ends when Close is called
	stop    context.CancelFunc
	done    chan struct{} // the goroutine has ended
	err     error         // error of Delete; valid when done is closed

	// Used by the goroutine only.
	in         tandem.Instance // the version that should be listed
	lastErr    error           // error of the last check or attempt; nil while the instance is listed
	failures   int             // failed attempts in a row
	lossLogged bool            // the log has a loss, and not yet that the entry is restored
}

// update asks the goroutine to list another version of the instance.
type update struct {
	ctx    context.Context
	in     tandem.Instance
	result chan<- error // has a buffer of one
}

func (m *maintained) run() {
	defer close(m.done)
	// The first pause is random, so that servers that were started together do not
	// check at the same time.
	pause := rand.N(m.keep.Every) + time.Millisecond
	for ; ; pause = m.pause() {
		next := time.NewTimer(pause)
		select {
		case <-next.C:
			m.checkOrPut()
		case <-m.keep.Lost:
			m.checkOrPut()
		case u := <-m.updates:
			u.result <- m.replace(u)
		case <-m.ctx.Done():
			next.Stop()
			m.err = m.deleteEntry()
			return
		}
		next.Stop()
	}
}

// pause returns the time until the next check or attempt.
func (m *maintained) pause() time.Duration {
	if m.lastErr == nil || errors.Is(m.lastErr, registry.ErrSuperseded) {
		return m.keep.Every - rand.N(m.keep.Every/8+1)
	}
	return rand.N(m.ceiling()) + time.Millisecond
}

// ceiling returns the longest pause after m.failures failures, which is at least 1.
func (m *maintained) ceiling() time.Duration {
	first := max(firstPause, m.keep.Every)
	return min(mostPause, 3*m.keep.Every+beyondTTL, first<<min(m.failures-1, 8))
}

// checkOrPut checks the entry, and lists the instance again if it is not listed.
func (m *maintained) checkOrPut() {
	ctx, cancel := context.WithTimeout(m.ctx, m.keep.Timeout)
	defer cancel()
	err := m.lastErr
	if err == nil || errors.Is(err, registry.ErrSuperseded) {
		if err = m.entry.Check(ctx); err == nil {
			m.report(nil)
			return
		}
	}
	if !errors.Is(err, registry.ErrSuperseded) && ctx.Err() == nil {
		m.lost(err)
		err = m.entry.Put(ctx, m.in.Clone())
	}
	m.report(err)
}

// lost logs that the entry is being restored, once for each loss.
func (m *maintained) lost(err error) {
	if m.failures == 0 {
		m.lossLogged = true
		m.keep.Log.Warn(m.keep.Name+": registration lost; restoring it", "instance", m.id, "error", err)
	}
}

// report records the result of a check or attempt. It logs the second failure in a
// row, and the success that follows a failure or a loss.
func (m *maintained) report(err error) {
	switch {
	case err == nil && (m.failures > 0 || m.lossLogged):
		m.keep.Log.Info(m.keep.Name+": registration restored", "instance", m.id, "attempts", m.failures+1)
	case err != nil && m.failures == 1:
		m.keep.Log.Warn(m.keep.Name+": not listed; still trying", "instance", m.id, "error", err)
	}
	m.failures++
	if err == nil {
		m.failures, m.lossLogged = 0, false
	}
	m.lastErr = err
}

// replace lists another version of the instance. If that fails, the next
// attempt lists the previous version again.
func (m *maintained) replace(u update) error {
	err := m.entry.Put(u.ctx, u.in.Clone())
	if err == nil {
		m.in = u.in
	}
	m.report(err)
	return err
}

// deleteEntry deletes the entry.
func (m *maintained) deleteEntry() error {
	ctx, cancel := context.WithTimeout(context.Background(), m.keep.Timeout)
	defer cancel()
	if err := m.entry.Delete(ctx); err != nil {
		return fmt.Errorf("%s: removing %q: %w; it stays listed until its time to live is over", m.keep.Name, m.id, err)
	}
	return nil
}

// errClosed is the error of Update after Close.
var errClosed = errors.New("the registration is closed")

func (m *maintained) Update(ctx context.Context, in tandem.Instance) error {
	if in.ID != m.id {
		return fmt.Errorf("%s: instance %q can't be updated to another id, %q; register that", m.keep.Name, m.id, in.ID)
	}
	if err := in.Validate(); err != nil {
		return fmt.Errorf("%s: %w", m.keep.Name, err)
	}
	if err := m.ask(ctx, in.Clone()); err != nil {
		return fmt.Errorf("%s: updating %q: %w", m.keep.Name, in.ID, err)
	}
	return nil
}

// ask has the goroutine replace the listed version by in and waits for the result.
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
