// Package turn lets the goroutine that reads a connection run short functions itself, which saves
// handing each to another goroutine. When a function takes long after all, another goroutine takes
// the turn, and reads on. The native session has the same in its reader, where its monitor watches
// for more than this.
package turn

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Turn says which goroutine reads a connection. The goroutine that has the turn calls Begin and End.
type Turn struct {
	watch   *Watch
	n       atomic.Uint64 // odd while a function runs
	watched atomic.Bool

	// Set before n becomes odd.
	method   *Method
	takeOver func()

	// Used by the goroutine that looks.
	seen  uint64
	held  int
	quiet int // looks in a row that saw no function
}

// Init makes the turn ready. Until then and after Stop of the watch nothing takes it.
func (t *Turn) Init(w *Watch) { t.watch = w }

// Begin says that a run of m begins. If it takes long, takeOver is called in another goroutine: it
// has the turn then, and is to do what else this one would have done. mine is for End.
func (t *Turn) Begin(m *Method, takeOver func()) (mine uint64) {
	mine = t.n.Load() + 1
	t.method, t.takeOver = m, takeOver
	t.n.Store(mine)
	if !t.watched.Load() {
		t.watch.add(t)
	}
	return mine
}

// End says that the run has ended, and reports whether this goroutine still has the turn.
func (t *Turn) End(mine uint64) (kept bool) { return t.n.CompareAndSwap(mine, mine+1) }

// GiveUp passes the turn on, if it is still that of the run, which takes long or does not return.
func (t *Turn) GiveUp(mine uint64) {
	if t.n.CompareAndSwap(mine, mine+1) { // before it, the next run may set what is read here
		t.method.heldUp()
		t.watch.spawn(t.takeOver)
	}
}

// look takes the turn from a goroutine that has run the same function for two looks. Late looks count
// less: they show that the processors are busy, not that the function takes long.
func (t *Turn) look(punctual bool) {
	n := t.n.Load()
	if n&1 == 0 || n != t.seen {
		if n == t.seen {
			t.quiet++
		} else {
			t.seen, t.quiet = n, 0
		}
		t.held = 0
		return
	}
	t.held++
	if punctual {
		t.held += enough - 1
	}
	if t.held >= enough {
		t.GiveUp(n)
	}
}

const (
	enough = 5                    // late looks make a turn long
	every  = 2 * time.Millisecond // between looks
	perOne = 4 * time.Microsecond // more for each turn, so that looking takes little of one processor
	calm   = 50                   // looks without a function after which a turn is not watched
)

// Watch looks at the turns of which some have run functions lately. It is a timer, which is not set
// while there are none.
type Watch struct {
	spawn func(func())

	mu      sync.Mutex
	list    []*Turn
	timer   *time.Timer
	stopped bool

	last time.Time // of the last look; used by the goroutine that looks
}

// NewWatch returns a Watch that passes takeOver functions to spawn, which runs each in another
// goroutine. Stop ends it.
func NewWatch(spawn func(func())) *Watch { return &Watch{spawn: spawn} }

func (w *Watch) add(t *Turn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped || t.watched.Load() {
		return
	}
	t.watched.Store(true)
	t.quiet = 0
	w.list = append(w.list, t)
	switch {
	case w.timer == nil:
		w.last = time.Now()
		w.timer = time.AfterFunc(every, w.look)
	case len(w.list) == 1:
		w.last = time.Now()
		w.timer.Reset(every)
	}
}

// look looks at all turns.
func (w *Watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	pause := every + time.Duration(len(w.list))*perOne
	now := time.Now()
	punctual := now.Sub(w.last) < 3*pause
	w.last = now
	idle := false
	for _, t := range w.list {
		t.look(punctual)
		idle = idle || t.quiet >= calm
	}
	if idle {
		w.list = slices.DeleteFunc(w.list, (*Turn).dropped)
	}
	if len(w.list) > 0 {
		w.timer.Reset(pause)
	}
}

// dropped reports whether a turn need not be watched any more.
func (t *Turn) dropped() bool {
	if t.quiet < calm {
		return false
	}
	t.watched.Store(false)
	if t.n.Load() != t.seen { // a function has begun meanwhile, and saw watched set
		t.watched.Store(true)
		t.quiet = 0
		return false
	}
	return true
}

// Stop ends the watch. A function that runs then keeps its turn.
func (w *Watch) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	if w.timer != nil {
		w.timer.Stop()
	}
}
