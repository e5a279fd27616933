package pool

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
)

// link keeps one connection to an instance. A goroutine connects and returns; when the
// connection ends or takes no more calls, another goroutine connects again, until the link is
// closed. The client's Close waits for the link, from begin to leave, so a connection that is
// made in the meantime is closed, too.
type link struct {
	live   atomic.Pointer[Conn]
	pool   *Pool
	id     string // of the instance
	ep     tandem.Endpoint
	silent atomic.Pointer[Conn] // the connection that does not answer pings; nil if there is none
	probe  probe                // used by the prober

	mu      sync.Mutex
	state   linkState
	err     error              // why it is down
	changed chan struct{}      // closed when the state changes; nil until a call waits
	cancel  context.CancelFunc // ends connecting; nil unless a goroutine connects
	settled bool               // it is connected, and no goroutine runs for it
	closed  bool
}

type linkState uint8

const (
	connecting linkState = iota
	up
	down // the last attempt failed; the link waits for the next
	gone
)

func (l *link) init(p *Pool, id string, ep tandem.Endpoint) { l.pool, l.id, l.ep = p, id, ep }

func (l *link) set(state linkState, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == gone {
		return
	}
	l.state, l.err = state, err
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// changedLocked returns a channel that is closed when the state changes.
func (l *link) changedLocked() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}

// begin starts to connect.
func (l *link) begin() {
	l.pool.cfg.Life.Add()
	l.pool.cfg.Life.Go(l.run)
}

// run tries to connect until that succeeds or the link is closed.
func (l *link) run() {
	ctx, cancel := context.WithCancel(context.Background()) // ended by close, which the client's Close calls, too
	defer cancel()
	l.mu.Lock()
	closed := l.closed
	l.cancel = cancel
	l.mu.Unlock()
	settled := false
	defer func() {
		if !settled { // also if runtime.Goexit has ended this goroutine
			l.leave()
		}
	}()
	for failures := 0; !closed && ctx.Err() == nil; failures++ {
		l.set(connecting, nil)
		s, err := l.connect(ctx)
		if err == nil {
			settled = true
			l.settle(s)
			return
		}
		if ctx.Err() != nil {
			break // leave sets the error
		}
		l.set(down, err)
		l.pool.cfg.Log.Debug("connect failed", "endpoint", l.ep, "error", err)
		l.pool.disconnected()
		Sleep(ctx, l.pool.pause(failures))
	}
}

// settle stores a new connection. No goroutine runs for the link until the connection goes away.
func (l *link) settle(s *Conn) {
	l.live.Store(s)
	l.set(up, nil)
	l.pool.reconnected()
	if l.silent.Load() != nil {
		l.pool.health.count() // a suspect is back
	}
	l.mu.Lock()
	l.cancel, l.settled = nil, true
	closed := l.closed
	l.mu.Unlock()
	if closed {
		l.wake()
	}
	if s.Own != nil {
		s.Own.OnSuspicion(func(suspect bool) { l.doubt(s, suspect) })
	}
	s.OnAway(l.wake)
}

// doubt notes that the server of a connection has become silent though calls are
// outstanding, or answers again.
func (l *link) doubt(s *Conn, suspect bool) {
	if now := l.live.Load(); suspect && now != nil && now != s { // an old connection says nothing about the present one
		return
	}
	log := l.pool.cfg.Log.With("instance", l.id, "endpoint", l.ep)
	switch {
	case suspect:
		l.silent.Store(s)
		log.Warn("connection is suspect: the server is silent")
	case l.silent.CompareAndSwap(s, nil):
		log.Warn("connection answers again")
	}
	l.pool.health.count()
}

// wake starts a goroutine that replaces the connection of a link that is settled. It does not
// block: a session calls it when it ends.
func (l *link) wake() {
	l.mu.Lock()
	wasSettled := l.settled
	l.settled = false
	l.mu.Unlock()
	if !wasSettled {
		return
	}
	s := l.live.Swap(nil)
	close(s.left)
	l.pool.cfg.Life.Go(func() { l.replace(s) })
}

// replace gives up a connection that takes no more calls, and connects again.
func (l *link) replace(s *Conn) {
	l.pool.disconnected()
	l.end(s)
	l.run()
}

// close ends the link. It does not wait for that.
func (l *link) close() {
	l.mu.Lock()
	l.closed = true
	cancel := l.cancel
	l.mu.Unlock()
	if cancel != nil {
		cancel()
	}
	l.wake()
}

// leave ends the link: it sets the error of calls that still want to use it. If the instance
// has left the registry, they go to another one.
func (l *link) leave() {
	defer l.pool.cfg.Life.Done()
	if l.pool.cfg.Life.Context().Err() != nil {
		l.set(gone, ErrClosed)
		return
	}
	l.set(gone, NotTakenError("it left the registry"))
}

// end retires a connection; calls in flight go on. Then it sleeps up to 10 ms, so that the
// clients of a server that goes away do not all reconnect at the same moment.
func (l *link) end(s *Conn) {
	if l.pool.cfg.Life.Context().Err() != nil {
		s.Close()
		return
	}
	s.Retire()
	l.pool.keep(s)
	l.mu.Lock()
	closed := l.closed
	l.mu.Unlock()
	if !closed {
		Sleep(l.pool.cfg.Life.Context(), rand.N(10*time.Millisecond))
	}
}

func (l *link) connect(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, l.pool.cfg.ConnectTimeout)
	defer cancel()
	return l.pool.cfg.Connect(ctx, l.id, l.ep)
}

// Sleep waits for d. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// well reports whether the link is connected and the server answers.
func (l *link) well() bool {
	s := l.live.Load()
	return s != nil && s != l.silent.Load()
}

// usable reports whether the link is connected or being connected.
func (l *link) usable() bool {
	if l.live.Load() != nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == connecting
}

// connection returns the link's connection. It waits for one that is being made.
func (l *link) connection(ctx context.Context, call *tandem.Call) (*Conn, error) {
	if s := l.live.Load(); s != nil {
		return s, nil
	}
	ctx, cancel := l.pool.patience(ctx, call)
	defer cancel()
	for {
		l.mu.Lock()
		if s := l.live.Load(); s != nil {
			l.mu.Unlock()
			return s, nil
		}
		state, err, changed := l.state, l.err, l.changedLocked()
		l.mu.Unlock()
		if state == down || state == gone {
			return nil, unreachable(l.ep, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			e := tandem.AsError(ctx.Err())
			e.Message = fmt.Sprintf("still connecting to %s", l.ep)
			e.NotExecuted = true
			return nil, e
		}
	}
}

func unreachable(ep tandem.Endpoint, err error) error {
	e := tandem.Errorf(tandem.Unavailable, "%s is not reachable: %w", ep, err)
	e.NotExecuted = true
	return e
}
