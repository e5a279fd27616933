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

// loop is an engine that watches descriptors, edge-triggered. One poller is enough: it only
// wakes readers.
type loop struct {
	engine *nbio.Engine
	begins atomic.Int64 // connections made; a change happens before a later load, which orders the fields of a conn

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
		return nil, err // an engine that has not begun must not be stopped
	}
	if err := p.check(); err != nil {
		l.stop()
		return nil, err
	}
	return l, nil
}

// stop ends the engine, which first releases every connection.
func (l *loop) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.stopped {
		l.stopped = true
		l.engine.Stop()
	}
}

// stranger is a socket of a type that the engine does not know. The engine copies the
// descriptor of such a socket and watches the copy, but never closes it: so received bytes can
// be read after the engine has released the connection, and no other socket gets the number.
type stranger struct{ socket }

// adopt makes the engine watch s. The result replaces s, which is closed.
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

// watch adds a connection to the engine. The engine's table does not guarantee that its
// goroutines see all fields of c, so begins does.
func (l *loop) watch(c *conn) error {
	c.watched.SetSession(c)
	l.begins.Add(1)
	_, err := l.engine.AddConn(c.watched)
	return err
}

// connOf returns the conn given to watch, in the engine's goroutines.
func (l *loop) connOf(c *nbio.Conn) *conn {
	l.begins.Load()
	return c.Session().(*conn)
}
