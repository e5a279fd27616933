package ratelimit

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/tandem-rpc/tandem"
)

// keyed has a bucket for each key that was used recently.
type keyed struct {
	scope scope
	most  int

	mu     sync.Mutex
	byKey  map[string]*list.Element // of *bucket
	recent *list.List               // of *bucket, the last used first
	busy   *list.Element            // mark in recent: the keys before it have calls in flight
	crowd  *bucket                  // shared by keys for which there is no room
}

// bucket is the state of one key's limit.
type bucket struct {
	key    string
	at     *list.Element // where it is in recent; nil for the crowd
	rate   *rate.Limiter // nil for no limit
	inside int           // calls in flight; guarded by the keyed's mutex
}

func newKeyed(s scope, most int) *keyed {
	k := &keyed{scope: s, most: most, byKey: map[string]*list.Element{}, recent: list.New(), crowd: newBucket(s.limit, "")}
	k.busy = k.recent.PushFront(nil)
	return k
}

// of returns the key of a call; false if the call is not limited.
func (k *keyed) of(call *tandem.Call) (key string, limited bool) {
	if k.scope.key == nil {
		return "", true
	}
	key = k.scope.key(call)
	return key, key != ""
}

// enter admits a call and returns its bucket, for leave. It returns nil if the call is refused,
// and how long its caller should wait if that is known.
func (k *keyed) enter(key string) (b *bucket, wait time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now() // under the mutex: a limiter that is given an earlier time counts the time in between twice
	b = k.bucket(key)
	if most := k.scope.limit.AtOnce; most > 0 && b.inside >= most {
		return nil, 0
	}
	if b.rate != nil {
		r := b.rate.ReserveN(now, 1)
		if wait = r.DelayFrom(now); wait > 0 {
			r.CancelAt(now)
			return nil, wait
		}
	}
	if b.inside++; b.inside == 1 && b.at != nil {
		k.recent.MoveToFront(b.at)
	}
	return b, 0
}

func (k *keyed) leave(b *bucket) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if b.inside--; b.inside == 0 && b.at != nil {
		k.recent.MoveAfter(b.at, k.busy)
	}
}

// bucket returns the bucket of a key. The mutex is held.
func (k *keyed) bucket(key string) *bucket {
	if e := k.byKey[key]; e != nil {
		b := e.Value.(*bucket) //nolint:forcetypeassert // nothing else is stored
		if b.inside == 0 {
			k.recent.MoveAfter(e, k.busy)
		}
		return b
	}
	if len(k.byKey) >= k.most && !k.forget() {
		return k.crowd
	}
	b := newBucket(k.scope.limit, key)
	b.at = k.recent.InsertAfter(b, k.busy)
	k.byKey[key] = b.at
	return b
}

// forget evicts the least recently used of the keys without calls in flight; false if there is
// none. The mutex is held.
func (k *keyed) forget() bool {
	e := k.recent.Back()
	if e == k.busy {
		return false
	}
	b := k.recent.Remove(e).(*bucket) //nolint:forcetypeassert // nothing else is stored
	delete(k.byKey, b.key)
	return true
}
