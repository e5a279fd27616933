package nbio

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/lesismal/nbio"
	"github.com/lesismal/nbio/logging"
)

// loop is an engine that watches descriptors. It reports edges, and one poller is
// enough for it: it only wakes readers.
type loop struct {
	engine *nbio.Engine
	begins atomic.Int64 // connections that were made; what stands before a change is seen after a load

	mu      sync.RWMutex // held shared while a connection is added
	stopped bool
}

func newLoop() (*loop, error) {
	logging.SetLevel(logging.LevelError)
	l := &loop{engine: nbio.NewEngine(nbio.Config{Name: "tandem", NPoller: 1, EpollMod: nbio.EPOLLET, ReadBufferSize: 1})}
	l.engine.OnRead(func(c *nbio.Conn) { l.connOf(c).ready() })
	l.engine.OnClose(func(c *nbio.Conn, _ error) { l.connOf(c).leave() })
	p, err := newProof()
	if err != nil {
		return nil, err
	}
	if err := l.engine.Start(); err != nil {
		return nil, errors.Join(err, p.end())
	}
	if err := l.begun(p); err != nil {
		return nil, err // the engine must not be stopped before it has begun
	}
	if err := p.check(); err != nil {
		l.stop()
		return nil, err
	}
	return l, nil
}

// stop ends the engine, which lets go of every connection first.
func (l *loop) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.stopped = true
		l.engine.Stop()
	}
}

// stranger is a socket of a type that the engine does not know. Of such it copies the
// descriptor and watches the copy, but never closes it: what a connection has
// received outlives the engine's interest, and nobody else gets its number.
type stranger struct{ socket }

// adopt has the engine watch s. The result takes its place; what it was is closed.
func (l *loop) adopt(s socket) (net.Conn, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.stopped {
		return nil, net.ErrClosed
	}
	c, err := newConn(s)
	if err != nil {
		return nil, err
	}
	if err := l.watch(c); err != nil {
		return nil, errors.Join(err, syscall.Close(c.fd))
	}
	return c, nil
}

// watch hands a connection to the engine, through whose table no goroutine can be
// sure to see all of it.
func (l *loop) watch(c *conn) error {
	c.watched.SetSession(c)
	l.begins.Add(1)
	_, err := l.engine.AddConn(c.watched)
	return err
}

// connOf is the other end of watch, in the engine's goroutines.
func (l *loop) connOf(c *nbio.Conn) *conn {
	l.begins.Load()
	return c.Session().(*conn)
}
