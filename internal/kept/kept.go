// Package kept keeps good answers of calls for a while, bounded in number and bytes. It is pure: it
// takes the time as an argument. For tandem's own packages only.
package kept

import (
	"container/list"
	"sync"
	"time"
)

// Answer is an encoded response. It must not be changed.
type Answer struct {
	Message    []byte
	Compressed bool
}

// Key identifies the request of an answer.
type Key [32]byte

// Answers are those of one method; the one that was put or got least recently goes first. The zero
// value is empty. It is safe for concurrent use.
type Answers struct {
	mu     sync.Mutex
	byKey  map[Key]*list.Element // of *entry
	recent list.List             // the last used first
	bytes  int
}

type entry struct {
	key    Key
	answer Answer
	since  time.Time
}

// overhead is what an entry takes beside its message, roughly.
const overhead = 200

func (e *entry) size() int { return len(e.answer.Message) + overhead }

// Put keeps a copy of an answer in place of the one with its key, if there is room for it.
func (a *Answers) Put(key Key, answer Answer, now time.Time, entries, bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if old := a.byKey[key]; old != nil {
		a.dropLocked(old)
	}
	fresh := &entry{key: key, since: now}
	if len(answer.Message)+overhead > bytes || entries < 1 {
		return
	}
	fresh.answer = Answer{append([]byte(nil), answer.Message...), answer.Compressed}
	if a.byKey == nil {
		a.byKey = map[Key]*list.Element{}
	}
	a.byKey[key] = a.recent.PushFront(fresh)
	a.bytes += fresh.size()
	for len(a.byKey) > entries || a.bytes > bytes {
		a.dropLocked(a.recent.Back())
	}
}

// Get returns the answer for a key, unless it is older than maxAge; false if there is none.
func (a *Answers) Get(key Key, now time.Time, maxAge time.Duration) (Answer, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.byKey[key]
	if at == nil {
		return Answer{}, false
	}
	e := at.Value.(*entry) //nolint:forcetypeassert // nothing else is stored
	if now.Sub(e.since) > maxAge {
		a.dropLocked(at)
		return Answer{}, false
	}
	a.recent.MoveToFront(at)
	return e.answer, true
}

func (a *Answers) dropLocked(at *list.Element) {
	e := a.recent.Remove(at).(*entry) //nolint:forcetypeassert // nothing else is stored
	delete(a.byKey, e.key)
	a.bytes -= e.size()
}
