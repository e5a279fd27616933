package served

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem/policy"
)

// bucket is the state of one limit: a token bucket and a count of the calls in flight.
type bucket struct {
	limit policy.Limit
	burst float64
	table *keyed // whose mutex guards the bucket; nil if it has its own

	key callerKey
	at  *list.Element // where it is in the table's idle; nil while it has calls in flight, or without a table

	mu     sync.Mutex
	tokens float64
	filled time.Time // when tokens was right
	inside int
}

func newBucket(l policy.Limit) *bucket {
	b := &bucket{limit: l, burst: float64(l.Refills())}
	b.tokens = b.burst
	return b
}

// enter takes a place; it returns false if there is none, and how long until there is one if that
// is known.
func (b *bucket) enter(now time.Time) (ok bool, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.enterLocked(now)
}

func (b *bucket) enterLocked(now time.Time) (ok bool, wait time.Duration) {
	if b.limit.AtOnce > 0 && b.inside >= b.limit.AtOnce {
		return false, 0
	}
	if rate := b.limit.Rate; rate > 0 {
		if past := now.Sub(b.filled); past > 0 { // else another call has seen a later time
			if !b.filled.IsZero() {
				b.tokens = min(b.burst, b.tokens+past.Seconds()*rate)
			}
			b.filled = now
		}
		if b.tokens < 1 {
			return false, time.Duration((1 - b.tokens) / rate * float64(time.Second))
		}
		b.tokens--
	}
	b.inside++
	return true, 0
}

// leave gives back the place of a call that has ended; b may be nil.
func (b *bucket) leave() { b.giveBack(0) }

// undo gives back the place, and the token, of a call that another limit has refused; b may be nil.
func (b *bucket) undo() { b.giveBack(1) }

func (b *bucket) giveBack(tokens float64) {
	if b == nil {
		return
	}
	mu := &b.mu
	if b.table != nil {
		mu = &b.table.mu
	}
	mu.Lock()
	defer mu.Unlock()
	b.inside--
	b.tokens = min(b.burst, b.tokens+tokens)
	if b.inside == 0 && b.table != nil && b != b.table.crowd {
		b.at = b.table.idle.PushFront(b)
	}
}

// callerKey is a caller, by its name or its address, or a tenant.
type callerKey struct {
	isName bool
	text   string
}

// longestKey bounds the memory of a key; longer ones count by their hashes.
const longestKey = 256

func keyOf(isName bool, text string) callerKey {
	if len(text) > longestKey {
		sum := sha256.Sum256([]byte(text))
		text = string(sum[:])
	}
	return callerKey{isName, text}
}

// maxKeys is how many callers, or tenants, of a method have a limit of their own.
const maxKeys = 10_000

// keyed has a bucket for each key that was used lately. When it is full it forgets the key that was
// idle for longest; if none is idle, further keys share one bucket.
type keyed struct {
	limit policy.Limit

	mu    sync.Mutex
	byKey map[callerKey]*bucket
	idle  *list.List // of *bucket without calls in flight, the last used first
	crowd *bucket
}

func newKeyed(l policy.Limit) *keyed {
	k := &keyed{limit: l, byKey: map[callerKey]*bucket{}, idle: list.New(), crowd: newBucket(l)}
	k.crowd.table = k
	return k
}

func (k *keyed) enter(key callerKey, now time.Time) (b *bucket, ok bool, wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b = k.bucketLocked(key)
	if ok, wait = b.enterLocked(now); !ok {
		if b.at != nil {
			k.idle.MoveToFront(b.at)
		}
		return nil, false, wait
	}
	if b.at != nil {
		k.idle.Remove(b.at)
		b.at = nil
	}
	return b, true, 0
}

func (k *keyed) bucketLocked(key callerKey) *bucket {
	if b := k.byKey[key]; b != nil {
		return b
	}
	if len(k.byKey) >= maxKeys {
		oldest := k.idle.Back()
		if oldest == nil {
			return k.crowd
		}
		gone := k.idle.Remove(oldest).(*bucket) //nolint:forcetypeassert // nothing else is stored
		delete(k.byKey, gone.key)
	}
	b := newBucket(k.limit)
	b.table, b.key = k, key
	b.at = k.idle.PushFront(b)
	k.byKey[key] = b
	return b
}
