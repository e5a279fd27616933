package adapter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// Follower watches a registry for a resolver's Watch: it runs Session again whenever
// that ends. Name and Session must be set.
type Follower struct {
	Name string // name of the registry, for errors and the log: "etcd registry"
	// Session reads the whole list into m, then applies every change to m until
	// something fails or ctx ends. Each call of Session starts from the beginning.
	// An error that is a [*tandem.Error] with code InvalidArgument ends the
	// watch: the target can never work.
	Session func(ctx context.Context, m *Mirror) error
	// Settle is the least time between two deliveries; the changes of that time
	// are delivered together. It is 200 ms when 0, and longer for long lists: see Pace.
	Settle time.Duration
	// Relist is the longest time of one session, 45 s when 0, and longer for long lists. The
	// next session reads the whole list again, so that a missed change is noticed. The time
	// of a session is random, at least half of Relist.
	Relist time.Duration
	Log    *slog.Logger // gets a line for every entry that is dropped; may be nil
}

// unhurried is the number of instances up to which Settle and Relist apply as they are.
const unhurried = 1000

// Pace returns Settle and Relist for a list of that many instances: beyond 1,000 instances both
// grow in proportion to the list. So the work of a client, and what it reads of the registry, do
// not grow with the list.
func (f Follower) Pace(instances int) (settle, relist time.Duration) {
	settle, relist = orElse(f.Settle, 200*time.Millisecond), orElse(f.Relist, 45*time.Second)
	if instances > unhurried {
		settle = settle * time.Duration(instances) / unhurried
		relist = relist * time.Duration(instances) / unhurried
	}
	return settle, relist
}

// errRelist is the cause for which a session's context ends after its time.
var errRelist = errors.New("time to read the whole list again")

// Bounds of the longest pause after a failed session. Pauses have full jitter, as for
// registrations.
const (
	firstRetry = 100 * time.Millisecond
	mostRetry  = 5 * time.Second
)

// Follow calls Session again and again until ctx ends, and delivers the mirrored list
// and the failures of Session to update, one call at a time. It returns ctx's error. A
// resolver's Watch consists of a call of Follow.
func (f Follower) Follow(ctx context.Context, update func(registry.Snapshot)) error {
	if f.Log == nil {
		f.Log = slog.New(slog.DiscardHandler)
	}
	m := &Mirror{name: f.Name, log: f.Log, news: make(chan struct{}, 1), refused: map[string]string{}}
	feed := NewFeed(update)
	failures := 0
	for ctx.Err() == nil {
		before := m.changeCount()
		err := f.session(ctx, m, feed)
		if m.changeCount() != before {
			failures = 0 // the session has read the list
		}
		switch {
		case ctx.Err() != nil || errors.Is(err, errRelist):
			continue
		case tandem.CodeOf(err) == tandem.InvalidArgument:
			return fmt.Errorf("%s: %w", f.Name, err)
		case err == nil:
			err = errors.New("the watch ended")
		}
		feed.Fail(fmt.Errorf("%s: %w", f.Name, err))
		pause(ctx, rand.N(longestPause(failures))+time.Millisecond)
		failures++
	}
	return ctx.Err()
}

// longestPause returns the longest pause after the given number of failures in a row. It
// stays below a second for about the first three seconds, because calls of a client that
// has just started wait for the list.
func longestPause(failures int) time.Duration {
	const steadyFailures, steadyShift, maxShift = 8, 3, 8
	if failures <= steadyFailures {
		return firstRetry << min(failures, steadyShift)
	}
	return min(mostRetry, firstRetry<<min(failures-steadyFailures+steadyShift, maxShift))
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// session runs Session once and delivers the mirrored list until Session returns.
func (f Follower) session(ctx context.Context, m *Mirror, feed *Feed) error {
	_, relist := f.Pace(m.length()) // 0 before the first list
	limit := relist/2 + rand.N(relist/2+1)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errRelist)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		err := f.Session(ctx, m)
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		ended <- err
	}()
	var settled <-chan time.Time // receives when Settle has passed; nil when a delivery may be made
	for {
		news := m.news
		if settled != nil {
			news = nil
		}
		select {
		case <-news:
			feed.List(m.list())
			settle, _ := f.Pace(m.length())
			settled = time.After(settle)
		case <-settled:
			settled = nil
		case err := <-ended:
			if m.takeNews() {
				feed.List(m.list())
			}
			return err
		}
	}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// Mirror is the list as a session of a [Follower] has read it: instances by the
// keys under which the registry holds them. It is safe for concurrent use.
type Mirror struct {
	name string
	log  *slog.Logger
	news chan struct{} // has a token when something is to be delivered

	mu      sync.Mutex
	entries map[string]tandem.Instance
	refused map[string]string // reasons that were logged, by the key of the dropped entry
	changes uint64
}

// Replace makes the entries the whole list. The Mirror keeps the map.
func (m *Mirror) Replace(entries map[string]tandem.Instance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = entries
	m.changedLocked()
}

// Set adds an entry, or replaces it. A new entry beyond twice [registry.MaxInstances] is
// dropped. It does nothing before the first Replace.
func (m *Mirror) Set(key string, in tandem.Instance) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.entries == nil {
		return
	}
	if _, known := m.entries[key]; !known && len(m.entries) >= 2*registry.MaxInstances {
		m.refuseLocked(key, "the list is too long")
		return
	}
	m.entries[key] = in
	m.changedLocked()
}

// Delete removes an entry.
func (m *Mirror) Delete(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.refused, key)
	if _, known := m.entries[key]; known {
		delete(m.entries, key)
		m.changedLocked()
	}
}

// Decode is [Decode] for the entry under a key. For an entry that is not a valid
// instance it calls Refuse and returns false: other programs may write anything into
// a registry.
func (m *Mirror) Decode(key string, data []byte) (tandem.Instance, bool) {
	in, err := Decode(data)
	if err != nil {
		m.Refuse(key, err)
		return in, false
	}
	return in, true
}

// Refuse drops the entry under a key, and a valid one that it replaces. It logs that,
// once for each reason.
func (m *Mirror) Refuse(key string, reason error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refuseLocked(key, reason.Error())
	if _, known := m.entries[key]; known {
		delete(m.entries, key)
		m.changedLocked()
	}
}

func (m *Mirror) refuseLocked(key, reason string) {
	if len(m.refused) >= maxRefused || m.refused[key] == reason {
		return
	}
	m.refused[key] = reason
	m.log.Warn(m.name+": entry dropped", "key", key, "reason", reason)
}

func (m *Mirror) changedLocked() {
	m.changes++
	select {
	case m.news <- struct{}{}:
	default:
	}
}

// changeCount returns the number of changes so far.
func (m *Mirror) changeCount() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changes
}

// takeNews takes the token and reports whether there was one.
func (m *Mirror) takeNews() bool {
	select {
	case <-m.news:
		return true
	default:
		return false
	}
}

func (m *Mirror) length() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}

func (m *Mirror) list() []tandem.Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.entries))
}
