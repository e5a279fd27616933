package client

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/resilience"
)

// backoff is the pause between attempts, drawn.
type backoff struct{ resilience.Backoff }

func (b backoff) pause(failures int) time.Duration { return b.Pause(failures, rand.Float64()) }

// link keeps one connection to an instance. Its goroutine connects, waits for
// the connection to end or to go away, and connects again, until the link is
// closed.
type link struct {
	client *Client
	id     string // of the instance
	ep     tandem.Endpoint
	t      tandem.Transport
	live   atomic.Pointer[live]
	silent atomic.Pointer[live] // that does not answer pings
	probe  probe                // the prober's

	mu      sync.Mutex
	state   linkState
	err     error         // why it is down
	changed chan struct{} // closed and replaced when the state changes
}

type linkState uint8

const (
	connecting linkState = iota
	up
	down // the last attempt failed; the next is waiting
	gone
)

func newLink(c *Client, id string, ep tandem.Endpoint) *link {
	return &link{client: c, id: id, ep: ep, t: c.opts.transports[ep.Transport], changed: make(chan struct{})}
}

func (l *link) set(state linkState, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state == gone {
		return
	}
	l.state, l.err = state, err
	close(l.changed)
	l.changed = make(chan struct{})
}

// run keeps the link connected until ctx ends.
func (l *link) run(ctx context.Context) {
	defer l.leave()
	for failures := 0; ctx.Err() == nil; {
		l.set(connecting, nil)
		s, err := l.connect(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return // leave says why
			}
			l.set(down, err)
			l.client.log().Debug("connect failed", "endpoint", l.ep, "error", err)
			l.client.pool.disconnected()
			if !sleep(ctx, l.client.opts.backoff.pause(failures)) {
				return
			}
			failures++
			continue
		}
		failures = 0
		l.live.Store(s)
		l.set(up, nil)
		if l.silent.Load() != nil {
			l.client.pool.health.count() // a suspect is back
		}
		select {
		case <-s.Away():
		case <-s.Done():
		case <-ctx.Done():
		}
		l.live.Store(nil)
		l.client.pool.disconnected()
		l.end(ctx, s)
	}
}

// leave says why no call can use the link any more. An instance that left the
// registry is a reason to go elsewhere.
func (l *link) leave() {
	if l.client.ctx.Err() != nil {
		l.set(gone, errClosed)
		return
	}
	l.set(gone, fmt.Errorf("%w: it left the registry", session.ErrDraining))
}

// end leaves a connection that takes no more calls; those in flight go on.
func (l *link) end(ctx context.Context, s *live) {
	if l.client.ctx.Err() != nil {
		s.Close()
		return
	}
	s.Retire()
	l.client.pool.keep(s)
	if ctx.Err() == nil {
		sleep(ctx, rand.N(10*time.Millisecond))
	}
}

func (l *link) connect(ctx context.Context) (*live, error) {
	if l.t == nil {
		return nil, fmt.Errorf("no transport %q: give it to WithTransport", l.ep.Transport)
	}
	p, known := l.client.opts.protocol(l.ep)
	if !known {
		return nil, fmt.Errorf("no protocol %q: give it to WithProtocols", l.ep.Protocol)
	}
	ctx, cancel := context.WithTimeout(ctx, l.client.opts.connectTimeout)
	defer cancel()
	if p != nil {
		return l.connectForeign(ctx, p)
	}
	conn, err := l.t.Dial(ctx, l.ep.Address)
	if err != nil {
		return nil, err
	}
	if conn, err = l.client.points.show(conn); err != nil {
		return nil, err
	}
	s, err := l.client.env.Connect(ctx, conn, l.id)
	if err != nil {
		return nil, err
	}
	if err := l.client.announce(ctx, s); err != nil {
		s.Close()
		return nil, err
	}
	return native(s), nil
}

// sleep waits; false when ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// well reports whether it is connected to somebody who answers.
func (l *link) well() bool {
	s := l.live.Load()
	return s != nil && s != l.silent.Load()
}

// usable reports whether a call may hope for this link.
func (l *link) usable() bool {
	if l.live.Load() != nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state == connecting
}

// connection returns the live one, waiting for one that is being made.
func (l *link) connection(ctx context.Context, call *tandem.Call) (*live, error) {
	if s := l.live.Load(); s != nil {
		return s, nil
	}
	ctx, cancel := l.client.patience(ctx, call)
	defer cancel()
	for {
		l.mu.Lock()
		state, err, changed := l.state, l.err, l.changed
		l.mu.Unlock()
		if s := l.live.Load(); s != nil {
			return s, nil
		}
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
