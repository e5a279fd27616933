package sim

import (
	"time"
)

// host is a computer whose processors goroutines share as under Go's scheduler: first come,
// first served, for at most a slice at a time.
type host struct {
	world *world
	idle  int // processors
	procs int
	queue []*task
	busy  time.Duration   // processor time spent
	waits []time.Duration // for a processor, of tasks since the last tick
}

// slice is how long a goroutine runs before others get the processor.
const slice = 10 * time.Millisecond

// task is a goroutine that can run.
type task struct {
	left  time.Duration
	ready time.Duration // since when
	done  func()
}

func newHost(w *world, procs int) *host { return &host{world: w, idle: procs, procs: procs} }

// spend lets a goroutine use a processor for that long, then calls done.
func (h *host) spend(d time.Duration, done func()) {
	h.queue = append(h.queue, &task{left: d, ready: h.world.now, done: done})
	h.dispatch()
}

func (h *host) dispatch() {
	for h.idle > 0 && len(h.queue) > 0 {
		t := h.queue[0]
		h.queue[0] = nil
		h.queue = h.queue[1:]
		h.idle--
		h.waits = append(h.waits, h.world.now-t.ready)
		runs := min(t.left, slice)
		t.left -= runs
		h.busy += runs
		h.world.after(runs, func() {
			h.idle++
			if t.left > 0 {
				t.ready = h.world.now
				h.queue = append(h.queue, t)
			} else {
				t.done()
			}
			h.dispatch()
		})
	}
}

// pool is a set of connections that a server's handlers use, first come, first served.
type pool struct {
	world *world
	free  int
	queue []*borrower
}

type borrower struct {
	until time.Duration // when it gives up; 0 for never
	got   func()
	gone  func()
	over  bool
}

// borrow calls got when a connection is free, or gone at the time until.
func (p *pool) borrow(until time.Duration, got, gone func()) {
	b := &borrower{until: until, got: got, gone: gone}
	if p.free > 0 {
		p.free--
		b.over = true
		got()
		return
	}
	p.queue = append(p.queue, b)
	if until > 0 {
		p.world.after(until-p.world.now, func() {
			if !b.over {
				b.over = true
				gone()
			}
		})
	}
}

// giveBack gives a connection to the next borrower.
func (p *pool) giveBack() {
	for len(p.queue) > 0 {
		b := p.queue[0]
		p.queue = p.queue[1:]
		if !b.over {
			b.over = true
			b.got()
			return
		}
	}
	p.free++
}
