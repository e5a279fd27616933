package identity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
)

// The limits of fetching keys.
const (
	fetchTime  = 5 * time.Second // an answer has this time, and a call waits for it at most as long
	maxWaiting = 128             // calls that wait for keys at the same time
	look       = time.Second     // between two looks at a file
)

// Status says which keys a Verifier has.
type Status struct {
	Source   string    // the file or the address; of an issuer that is discovered, its own
	Keys     int       // how many; 0 until there are any
	Loaded   time.Time // when the source last delivered keys
	Changed  time.Time // when they last differed from those before
	Error    string    // why the last attempt failed; "" if it did not
	Failures uint64    // attempts that failed
}

// keeper has the keys of a source, and renews them in one goroutine.
type keeper struct {
	cfg    *Config
	read   func(ctx context.Context) ([]byte, error)
	every  time.Duration // between two reads
	again  time.Duration // after one that failed, and the least between two
	stale  time.Duration // how long the last keys are used; 0 for ever
	wanted chan struct{} // a call asks for keys now
	stop   context.CancelFunc
	done   chan struct{}

	keys    atomic.Pointer[keySet]
	loaded  atomic.Int64 // Unix nanoseconds
	waiting atomic.Int64

	mu      sync.Mutex
	status  Status
	text    []byte        // of keys
	running bool          // a read has begun
	ended   time.Time     // when the last one has ended
	reading chan struct{} // closed when the read has ended that runs or comes next
}

// startKeeper starts reading the keys. It fails if a file can't be read.
func startKeeper(cfg *Config) (*keeper, error) {
	k := &keeper{cfg: cfg, wanted: make(chan struct{}, 1), done: make(chan struct{}), reading: make(chan struct{})}
	k.status.Source = cfg.Keys.where
	if cfg.Keys.kind == "discovery" {
		k.status.Source = cfg.Issuer
	}
	read, err := cfg.Keys.reader(cfg)
	if err != nil {
		return nil, err
	}
	k.read, k.every, k.again, k.stale = read, cfg.Refresh, cfg.MinRefresh, cfg.MaxStale
	ctx, stop := context.WithCancel(context.Background())
	k.stop = stop
	if cfg.Keys.kind == "file" {
		k.every, k.again, k.stale = look, look, 0
		if err := k.update(ctx); err != nil {
			stop()
			return nil, err
		}
	}
	go k.run(ctx)
	return k, nil
}

func (k *keeper) close() {
	k.stop()
	<-k.done
}

// run reads the keys from time to time, and when a call wants them.
func (k *keeper) run(ctx context.Context) {
	defer close(k.done)
	after := k.every
	if k.keys.Load() == nil {
		after = 0
	}
	for k.sleep(ctx, after) {
		after = k.every
		if k.update(ctx) != nil {
			after = min(after, k.again)
		}
	}
}

// sleep waits for that time, or until a call wants keys; false if the keeper is closed.
func (k *keeper) sleep(ctx context.Context, after time.Duration) bool {
	timer := time.NewTimer(after)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-k.wanted: // only sent if the keys may be read
	case <-ctx.Done():
		return false
	}
	return true
}

// mayRead reports whether a call may have the keys read now. The mutex is held.
func (k *keeper) mayRead() bool { return !k.running && time.Since(k.ended) >= k.again }

// update reads the keys once. An error leaves those before.
func (k *keeper) update(ctx context.Context) error {
	k.mu.Lock()
	k.running = true
	select {
	case <-k.wanted: // this is it
	default:
	}
	k.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	text, err := k.read(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	defer func() {
		close(k.reading)
		k.running, k.ended, k.reading = false, time.Now(), make(chan struct{})
	}()
	same := err == nil && k.text != nil && bytes.Equal(text, k.text)
	var keys *keySet
	if err == nil && !same {
		keys, err = parseKeys(text)
	}
	if err != nil {
		if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			k.failed(err)
		}
		return fmt.Errorf("keys of %s: %w", k.status.Source, err)
	}
	now := time.Now()
	k.status.Loaded, k.status.Error = now, ""
	k.loaded.Store(now.UnixNano())
	if !same {
		k.text, k.status.Changed, k.status.Keys = text, now, len(keys.keys)
		k.keys.Store(keys)
		k.cfg.Logger.Info("keys of tokens have changed", "source", k.status.Source, "keys", len(keys.keys))
	}
	return nil
}

// failed records a failure. The mutex is held.
func (k *keeper) failed(err error) {
	k.status.Failures++
	if text := err.Error(); text != k.status.Error {
		k.status.Error = text
		k.cfg.Logger.Error("keys of tokens can't be read: those before are used", "source", k.status.Source, "keys", k.status.Keys, "error", err)
	}
}

// current returns the keys, nil if there have never been any, or why tokens can't be checked.
func (k *keeper) current(now time.Time) (*keySet, error) {
	if k.stale > 0 && now.Sub(time.Unix(0, k.loaded.Load())) > k.stale && k.keys.Load() != nil {
		return nil, unavailable("tokens can't be checked now: the issuer's keys are too old")
	}
	return k.keys.Load(), nil
}

// newer returns keys that are newer than old, which lacks a key or is nil, if the source may be
// asked for them now; else those that there are.
func (k *keeper) newer(ctx context.Context, old *keySet) (*keySet, error) {
	k.mu.Lock()
	reading, wait := k.reading, k.keys.Load() == old && (k.running || k.mayRead())
	if wait && !k.running {
		select {
		case k.wanted <- struct{}{}:
		default:
		}
	}
	k.mu.Unlock()
	if wait {
		if err := k.wait(ctx, reading); err != nil {
			return nil, err
		}
	}
	if keys := k.keys.Load(); keys != nil {
		return keys, nil
	}
	return nil, unavailable("tokens can't be checked now: there are no keys of the issuer yet")
}

// wait waits for the end of the read that runs or comes next.
func (k *keeper) wait(ctx context.Context, reading <-chan struct{}) error {
	defer k.waiting.Add(-1)
	if k.waiting.Add(1) > maxWaiting {
		return unavailable("tokens can't be checked now: too many calls wait for the issuer's keys")
	}
	timer := time.NewTimer(fetchTime)
	defer timer.Stop()
	select {
	case <-reading:
	case <-timer.C:
	case <-k.done:
	case <-ctx.Done():
		return unavailable("the call ended while the issuer's keys were fetched")
	}
	return nil
}

// ready waits until there are keys.
func (k *keeper) ready(ctx context.Context) error {
	for {
		k.mu.Lock()
		reading, status := k.reading, k.status
		k.mu.Unlock()
		if k.keys.Load() != nil {
			return nil
		}
		select {
		case <-reading:
		case <-k.done:
			return errors.New("identity: the verifier is closed")
		case <-ctx.Done():
			return fmt.Errorf("identity: no keys of %s: %w: %s", status.Source, ctx.Err(), status.Error)
		}
	}
}

// unavailable is the error of a call that may be made again: its token was not looked at.
func unavailable(why string) error {
	return &tandem.Error{Code: tandem.Unavailable, Message: why, NotExecuted: true}
}
