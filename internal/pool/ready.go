package pool

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/call"
)

// Bounds of the calls that wait for a ready connection: how many, and the bytes of their
// encoded arguments together.
const (
	maxWaiting      = 10_000
	maxWaitingBytes = 64 << 20
)

// promptly bounds the pause before a reconnect while calls may be waiting for it.
const promptly = 500 * time.Millisecond

// readiness records since when no instance is connected, and counts the calls that wait for
// a connection or the first list of instances. It is safe for concurrent use.
type readiness struct {
	mu      sync.Mutex
	lost    time.Time     // zero while an instance is connected
	changed chan struct{} // closed when a connection is ready or none will come; nil until a call waits
	hopeful bool          // a connection may still come
	calls   int           // number of calls that wait
	bytes   int           // total bytes of those calls' encoded arguments
}

// lose notes that no instance is connected.
func (r *readiness) lose(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost.IsZero() {
		r.lost = now
	}
}

// regain notes that an instance is connected, and wakes the calls that wait.
func (r *readiness) regain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = time.Time{}
	r.wakeLocked()
}

// abandon notes that no connection will come: calls do not wait any more.
func (r *readiness) abandon() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hopeful = false
	r.wakeLocked()
}

func (r *readiness) wakeLocked() {
	if r.changed != nil {
		close(r.changed)
		r.changed = nil
	}
}

// left returns how much of the time to wait is left; 0 if calls need not wait or must not.
func (r *readiness) left(wait time.Duration, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leftLocked(wait, now)
}

func (r *readiness) leftLocked(wait time.Duration, now time.Time) time.Duration {
	if r.lost.IsZero() || !r.hopeful {
		return 0
	}
	return max(0, r.lost.Add(wait).Sub(now))
}

// enter counts a call, with size bytes of encoded arguments, among those that wait. It returns an
// error if there are too many. A call that has entered must leave.
func (r *readiness) enter(size int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.enterLocked(size)
}

func (r *readiness) enterLocked(size int) error {
	if r.calls >= maxWaiting || r.bytes+size > maxWaitingBytes {
		return unavailable("too many calls wait for a connection: %d, with %d bytes of arguments (see WithWait)", r.calls, r.bytes)
	}
	r.calls++
	r.bytes += size
	return nil
}

// join is enter for a call that waits as long as WithWait says. It returns the channel to
// wait on and the longest time to wait; a nil channel if the call must not wait.
func (r *readiness) join(wait time.Duration, size int) (<-chan struct{}, time.Duration, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.leftLocked(wait, time.Now())
	if left == 0 {
		return nil, 0, nil
	}
	if err := r.enterLocked(size); err != nil {
		return nil, 0, err
	}
	if r.changed == nil {
		r.changed = make(chan struct{})
	}
	return r.changed, left, nil
}

func (r *readiness) leave(size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls--
	r.bytes -= size
}

// begin chooses where the call goes. While no instance is connected it waits for one: see
// [WithWait].
func (p *Pool) begin(ctx context.Context, v *view, call *tandem.Call) (attempt, error) {
	a, mayWait, err := p.start(ctx, v, call)
	for n := 0; err != nil && mayWait; n++ {
		if connected := p.connected(); !connected || n > 0 { // else it was connected meanwhile
			if err = p.await(ctx, call, err); err != nil {
				break
			}
		}
		a, mayWait, err = p.start(ctx, p.view.Load(), call)
	}
	return a, err
}

// await waits until an instance is connected, or the time to wait is over, whichever comes
// first: the call then chooses again. It returns cause if the call must not wait, or not any
// more, and an error that names cause if the call's context ends.
func (p *Pool) await(ctx context.Context, call *tandem.Call, cause error) error {
	size := sizeOf(call)
	changed, left, err := p.ready.join(p.cfg.Wait, size)
	if err != nil {
		return err
	}
	if changed == nil {
		return cause
	}
	defer p.ready.leave(size)
	ctx, cancel := p.patience(ctx, call)
	defer cancel()
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-ctx.Done():
		e := tandem.AsError(ctx.Err())
		e.Message = "waiting for a connection: " + tandem.AsError(cause).Message
		e.NotExecuted = true
		return e
	}
	return nil
}

// sizeOf returns how many bytes of memory the call's encoded arguments hold.
func sizeOf(made *tandem.Call) int {
	if o, ok := call.OutgoingOf(made); ok {
		return o.Size()
	}
	return 0
}

// connection returns the connection of a link, waiting for one that is being made.
func (p *Pool) connection(ctx context.Context, l *link, call *tandem.Call) (*Conn, error) {
	if s := l.live.Load(); s != nil {
		return s, nil
	}
	size := sizeOf(call)
	if err := p.ready.enter(size); err != nil {
		return nil, err
	}
	defer p.ready.leave(size)
	return l.connection(ctx, call)
}

// connected reports whether an instance is connected, and notes since when none is.
func (p *Pool) connected() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for m := range p.view.Load().all() {
		if m.live() {
			return true
		}
	}
	p.ready.lose(time.Now())
	return false
}

// disconnected is called when a link has lost its connection or could not connect. If no
// instance is connected the list may be old: the registry's keeper is asked to look.
func (p *Pool) disconnected() {
	if p.connected() {
		return
	}
	select {
	case p.unreachable <- struct{}{}:
	default:
	}
}

// reconnected is called when a link has connected.
func (p *Pool) reconnected() {
	p.mu.Lock() // so that a concurrent connected, which has seen no connection, does not note a loss afterwards
	defer p.mu.Unlock()
	p.ready.regain()
}

// pause returns how long a link waits before it connects again.
func (p *Pool) pause(failures int) time.Duration {
	pause := p.cfg.Backoff.Pause(failures, rand.Float64())
	if pause > promptly && p.ready.left(p.cfg.Wait, time.Now()) > 0 {
		return rand.N(promptly)
	}
	return pause
}
