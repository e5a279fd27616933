package turn_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/internal/turn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reader runs functions as a connection's reader does.
type reader struct {
	turn    turn.Turn
	method  turn.Method
	taken   atomic.Int64
	resumed func()
}

// run reports whether the turn was kept.
func (r *reader) run(f func()) bool {
	mine := r.turn.Begin(&r.method, func() {
		r.taken.Add(1)
		if r.resumed != nil {
			r.resumed()
		}
	})
	f()
	return r.turn.End(mine)
}

func newReader(t *testing.T) (*reader, *turn.Watch) {
	t.Helper()
	var wg sync.WaitGroup
	w := turn.NewWatch(func(f func()) { wg.Go(f) })
	t.Cleanup(func() { w.Stop(); wg.Wait() })
	r := new(reader)
	r.turn.Init(w)
	return r, w
}

// A short function keeps the turn. One that takes long loses it within a few milliseconds, and its
// method is not short any more until it has been quick often enough.
func TestLongFunctionsLoseTheTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newReader(t)
		for range 100 {
			if !r.run(func() { time.Sleep(time.Microsecond) }) {
				t.Fatal("a short function has lost the turn")
			}
		}
		var after time.Duration
		began := time.Now()
		r.resumed = func() { after = time.Since(began) }
		if r.run(func() { time.Sleep(time.Second) }) {
			t.Error("a long function has kept the turn")
		}
		synctest.Wait()
		if after == 0 || after > 10*time.Millisecond || r.taken.Load() != 1 {
			t.Errorf("taken over %d times, after %v", r.taken.Load(), after)
		}
		if r.method.IsShort() {
			t.Error("the method counts as short")
		}
		quick := 0
		for ; !r.method.IsShort(); quick++ {
			r.method.RanApart(time.Microsecond)
		}
		if quick < 10 || quick > 100 {
			t.Errorf("short again after %d quick runs", quick)
		}
	})
}

// A method that is caught once in many runs stays with the goroutine that reads.
func TestRareLongRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newReader(t)
		for range 2000 {
			r.method.Ran(time.Microsecond)
		}
		if r.run(func() { time.Sleep(20 * time.Millisecond) }) {
			t.Error("a long function has kept the turn")
		}
		if !r.method.IsShort() {
			t.Error("one of 2,000 runs counts")
		}
		synctest.Wait()
		r.run(func() { time.Sleep(20 * time.Millisecond) })
		if r.method.IsShort() {
			t.Error("two runs in a row do not count")
		}
	})
}

// The new reader has a turn of its own.
func TestTheTurnGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newReader(t)
		kept := false
		r.resumed = func() {
			r.resumed = nil
			kept = r.run(func() {})
		}
		if r.run(func() { time.Sleep(20 * time.Millisecond) }) {
			t.Error("a long function has kept the turn")
		}
		synctest.Wait()
		if !kept {
			t.Error("the second reader has lost its turn")
		}
	})
}

// A function that ends its goroutine passes the turn on.
func TestGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newReader(t)
		go func() {
			mine := r.turn.Begin(&r.method, func() { r.taken.Add(1) })
			defer r.turn.GiveUp(mine)
			runtime.Goexit()
		}()
		synctest.Wait()
		if r.taken.Load() != 1 {
			t.Errorf("taken over %d times", r.taken.Load())
		}
	})
}

// A turn that nothing uses is not watched: no timer fires. When it is used again, it is watched again.
func TestIdleTurnsAreNotWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := newReader(t)
		for range 3 {
			r.run(func() {})
			time.Sleep(time.Second) // virtual
			if r.run(func() { time.Sleep(50 * time.Millisecond) }) {
				t.Error("a long function has kept the turn")
			}
			synctest.Wait() // the turn is another goroutine's, which leaves it
		}
	})
}

// After Stop no turn is taken.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := newReader(t)
		r.run(func() {})
		w.Stop()
		if !r.run(func() { time.Sleep(time.Second) }) {
			t.Error("the turn was taken after Stop")
		}
	})
}

// Two long runs in a row in the reader take a method out of it; one does not.
func TestLongRuns(t *testing.T) {
	var m turn.Method
	const long, short = time.Millisecond, time.Microsecond
	for range 10 {
		m.Ran(long)
		m.Ran(short)
		if !m.IsShort() {
			t.Fatal("one long run counts")
		}
	}
	m.Ran(long)
	m.Ran(long)
	if m.IsShort() {
		t.Error("two long runs do not count")
	}
	for range 1000 {
		m.RanApart(long)
		m.RanApart(short)
	}
	if m.IsShort() {
		t.Error("a method of which every second run is long counts as short")
	}
}

// With real time and many readers every function runs once, and every turn has one holder.
func TestManyReaders(t *testing.T) {
	var wg sync.WaitGroup
	w := turn.NewWatch(func(f func()) { wg.Go(f) })
	defer w.Stop()
	var ran atomic.Int64
	const readers, each = 8, 60
	for range readers {
		var r reader
		r.turn.Init(w)
		var holders atomic.Int64
		var loop func()
		left := each
		loop = func() {
			for left > 0 {
				if holders.Add(1) != 1 {
					t.Error("two readers at once")
				}
				left--
				n := left
				mine := r.turn.Begin(&r.method, loop)
				holders.Add(-1)
				ran.Add(1)
				if n%20 == 0 {
					time.Sleep(15 * time.Millisecond) // long: real time, as the watch uses it
				}
				if !r.turn.End(mine) {
					return
				}
			}
		}
		wg.Go(loop)
	}
	wg.Wait()
	if ran.Load() != readers*each {
		t.Errorf("%d functions ran, want %d", ran.Load(), readers*each)
	}
}
