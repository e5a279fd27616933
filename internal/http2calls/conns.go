package http2calls

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tandem-rpc/tandem/internal/http2"
)

// Conns are the connections to one server: one, and further ones while the server allows no more calls
// on those that exist. They end with Close, and when the server can't be connected to, unless
// Config.Lasting is set. They are safe for concurrent use.
type Conns struct {
	cfg     Config
	most    int // connections; calls then wait
	connect func(context.Context) (net.Conn, error)
	base    context.Context //nolint:containedctx // of connecting: it ends with Close
	cancel  context.CancelFunc
	dials   chan struct{} // has a token while a call connects
	done    chan struct{}
	usual   atomic.Pointer[Conn] // that has taken the last call

	spare      atomic.Pointer[Exchange] // for a caller alone
	exchanges  sync.Pool                // for others
	goroutines sync.WaitGroup           // of all connections, and calls of Add

	mu   sync.Mutex
	list []*Conn
	err  error // why no more calls are made
}

// NewConns returns a server's connections; there is none yet. No more than most are made.
func NewConns(cfg Config, most int, connect func(context.Context) (net.Conn, error)) *Conns {
	s := &Conns{cfg: cfg, most: most, connect: connect, dials: make(chan struct{}, 1), done: make(chan struct{})}
	s.base, s.cancel = context.WithCancel(context.Background())
	return s
}

// maxTries is how many connections a call tries that are about to end.
const maxTries = 3

// Do makes a call. The error is as that of [Conn.Do].
func (s *Conns) Do(ctx context.Context, x *Exchange) error {
	for tries := 1; ; tries++ {
		c, err := s.lock(ctx)
		if err == nil {
			err = c.doLocked(ctx, x)
		}
		if !again(ctx, err, tries) {
			return err
		}
	}
}

// Open begins a stream, as [Conn.Open] does.
func (s *Conns) Open(ctx context.Context, header []http2.Field, limit int) (*Stream, error) {
	for tries := 1; ; tries++ {
		var st *Stream
		c, err := s.lock(ctx)
		if err == nil {
			st, err = c.openLocked(ctx, header, limit)
		}
		if !again(ctx, err, tries) {
			return st, err
		}
	}
}

// again reports whether a call that has failed is to try another connection: the one that it had was
// about to end.
func again(ctx context.Context, err error, tries int) bool {
	failed, ok := err.(*FailedError) //nolint:errorlint // it is not wrapped
	return ok && failed.NotTaken && tries < maxTries && ctx.Err() == nil
}

// lock returns a connection that takes a call, with its mu locked; a new one if there is none. The
// error is a [*FailedError].
func (s *Conns) lock(ctx context.Context) (*Conn, error) {
	if c := s.usual.Load(); c != nil {
		c.mu.Lock()
		c.pollLocked()
		if c.vacantLocked() {
			return c, nil
		}
		c.mu.Unlock()
	}
	c, err := s.take(ctx)
	if err != nil {
		return nil, err
	}
	return c, c.lockForCall(ctx)
}

// take returns a connection that takes a call or lets it wait; a new one if there is none. The error is
// a [*FailedError].
func (s *Conns) take(ctx context.Context) (*Conn, error) {
	if c := s.usable(); c != nil {
		return c, nil
	}
	if err := s.Err(); err != nil {
		return nil, notTaken(err)
	}
	if err := ctx.Err(); err != nil {
		return nil, &FailedError{Err: err, NotExecuted: true}
	}
	select {
	case s.dials <- struct{}{}:
		defer func() { <-s.dials }()
	case <-ctx.Done():
		return nil, &FailedError{Err: ctx.Err(), NotExecuted: true}
	case <-s.done:
		return nil, notTaken(s.Err())
	}
	if c := s.usable(); c != nil { // it was made meanwhile
		return c, nil
	}
	return s.Connect(ctx)
}

// usable returns a connection for a call; nil if another one is to be made.
func (s *Conns) usable() *Conn {
	c, full := s.find()
	if full && s.count() < s.most {
		return nil
	}
	return c
}

// find returns a connection that takes a call, or the one with the fewest calls that wait if all are
// full.
func (s *Conns) find() (best *Conn, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(c *Conn) bool { return c.ended() })
	least := 0
	for _, c := range s.list {
		waiting, err := c.load()
		switch {
		case err != nil: // it ends with its last call
		case waiting == 0:
			s.usual.Store(c)
			return c, false
		case best == nil || waiting < least:
			best, least = c, waiting
		}
	}
	return best, true
}

func (s *Conns) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.list)
}

// Connect makes another connection. The error is a [*FailedError].
func (s *Conns) Connect(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.base, func() { cancel(ErrClosed) })()
	nc, err := s.connect(ctx)
	var c *Conn
	if err == nil {
		c, err = s.Add(ctx, nc)
	}
	if err != nil {
		if ctx.Err() == nil && !s.cfg.Lasting {
			s.end(err)
		}
		return nil, &FailedError{Err: err, NotExecuted: true}
	}
	return c, nil
}

// Add begins HTTP/2 on a connection that exists, and adds it.
func (s *Conns) Add(ctx context.Context, nc net.Conn) (*Conn, error) {
	s.mu.Lock()
	why := s.err
	if why == nil {
		s.goroutines.Add(1)
		defer s.goroutines.Done()
	}
	s.mu.Unlock()
	if why != nil {
		_ = nc.Close() // why is the reason
		return nil, notTaken(why)
	}
	c, err := start(ctx, nc, s.cfg, &s.goroutines)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	why = s.err
	if why == nil {
		c.mu.Lock()
		c.extra = len(s.list) > 0
		c.mu.Unlock()
		s.list = append(s.list, c)
		s.usual.Store(c)
	}
	s.mu.Unlock()
	if why != nil {
		return nil, errors.Join(notTaken(why), c.Close())
	}
	return c, nil
}

func (s *Conns) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
		close(s.done)
	}
}

// Done is closed when no more calls are made.
func (s *Conns) Done() <-chan struct{} { return s.done }

// Err returns why no more calls are made; nil if they are.
func (s *Conns) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Close ends all connections and their calls, and waits for what they have started.
func (s *Conns) Close() error {
	s.end(ErrClosed)
	s.cancel()
	s.mu.Lock()
	list := s.list
	s.list = nil
	s.mu.Unlock()
	for _, c := range list {
		_ = c.Close() // it returns nil
	}
	s.goroutines.Wait()
	return nil
}

// ended reports whether the connection has ended.
func (c *Conn) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// load returns how many calls wait, counting one that would have to, or why no call is taken.
func (c *Conn) load() (waiting int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.errLocked(); err != nil {
		return 0, err
	}
	if len(c.waiting) == 0 && c.roomLocked() {
		return 0, nil
	}
	return len(c.waiting) + 1, nil
}
