package kcp

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	kcpgo "github.com/xtaci/kcp-go/v5"

	"github.com/tandem-rpc/tandem/transport"
)

// socket is a UDP socket that a listener and its connections share; it closes when
// the last of them has let it go.
type socket struct {
	conn net.PacketConn

	mu    sync.Mutex
	users int
}

// open opens a socket with one user.
func open(ctx context.Context, address string) (*socket, error) {
	var config net.ListenConfig
	conn, err := config.ListenPacket(ctx, "udp", address)
	if err != nil {
		return nil, err
	}
	return &socket{conn: conn, users: 1}, nil
}

// hold adds a user; false when the socket is closed.
func (s *socket) hold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		return false
	}
	s.users++
	return true
}

func (s *socket) release() error {
	s.mu.Lock()
	s.users--
	last := s.users == 0
	s.mu.Unlock()
	if !last {
		return nil
	}
	return s.conn.Close()
}

// listener accepts connections whose clients have said hello. Any packet makes a
// KCP session; what is left of an old connection says none, and is dropped.
type listener struct {
	kcp    *kcpgo.Listener
	socket *socket
	opts   *options
	conns  chan *conn
	once   sync.Once
	closed chan struct{}

	mu      sync.Mutex
	waiting map[*conn]*time.Timer       // have not been accepted yet, and when that is too late
	silent  transport.Handshakes[*conn] // those of them that have not said hello
}

// minHandshake is how long a client may always take for its hello: honest ones that come
// all at once are quicker.
const minHandshake = 100 * time.Millisecond

// greetAll greets sessions until the socket is closed, and turns them away when
// nobody listens any more.
func (l *listener) greetAll() {
	for {
		session, err := l.kcp.AcceptKCP()
		if err != nil {
			break
		}
		if !l.greet(session) {
			turnAway(session)
		}
	}
	// The socket is closed. Of a session that waits, and that, AcceptKCP takes
	// either, so it is asked often.
	for range 1000 {
		if session, err := l.kcp.AcceptKCP(); err == nil {
			_ = session.Close() // the socket is gone
		}
	}
	_ = l.kcp.Close() // it has nothing to say by now
}

// greet waits for the hello of a new session, in goroutines of its own; false when
// there is no place for it.
func (l *listener) greet(session *kcpgo.UDPSession) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.isClosed() || !l.hasRoomLocked(now) || !l.socket.hold() {
		return false
	}
	c := newConn(session, l.socket, l.opts)
	l.waiting[c] = time.AfterFunc(l.opts.wait, func() { l.drop(c) })
	l.silent.Add(c, transport.NetworkOf(transport.IP(session.RemoteAddr())), now)
	c.onHello = func() {
		l.mu.Lock()
		l.silent.Remove(c)
		l.mu.Unlock()
		c.say(hello)
		l.offer(c)
	}
	c.onGone = func() {
		go l.drop(c) // which waits for whoever calls onGone
	}
	c.start()
	return true
}

// hasRoomLocked reports whether one more may wait. If too many do, the one goes that
// [transport.Handshakes] names, unless it is new.
func (l *listener) hasRoomLocked(now time.Time) bool {
	if len(l.waiting) < l.opts.waiting {
		return true
	}
	old, since, ok := l.silent.Next()
	if !ok || now.Sub(since) < minHandshake {
		return false
	}
	l.takeLocked(old)
	go old.abort() // which waits for its goroutines
	return true
}

// take takes a connection from those that wait; false when it is none of them any
// more.
func (l *listener) take(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.takeLocked(c)
}

func (l *listener) takeLocked(c *conn) bool {
	late, ok := l.waiting[c]
	if ok {
		late.Stop()
		delete(l.waiting, c)
		l.silent.Remove(c)
	}
	return ok
}

// drop ends a connection that was not accepted.
func (l *listener) drop(c *conn) {
	if l.take(c) {
		c.abort()
	}
}

// offer hands a connection to Accept, unless it is dropped first: a server that
// accepts nothing must not gather connections.
func (l *listener) offer(c *conn) {
	select {
	case l.conns <- c:
	case <-c.dropped:
	}
}

// turnAway tells a client that it need not wait: its hello will not be answered,
// although KCP has acknowledged it. It does not wait for a client that takes nothing,
// since others wait for it.
func turnAway(session *kcpgo.UDPSession) {
	_ = session.SetWriteDeadline(time.Now())
	_, _ = session.Write(control(bye)) // leaves with the close
	_ = session.Close()
}

func (l *listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		select {
		case c := <-l.conns:
			if l.take(c) {
				return c, nil
			}
		case <-l.closed:
			return nil, &net.OpError{Op: "accept", Net: "udp", Addr: l.Addr(), Err: net.ErrClosed}
		}
	}
}

// Close stops listening. The socket stays open for the connections that were
// accepted.
func (l *listener) Close() error {
	err := net.ErrClosed
	l.once.Do(func() {
		l.mu.Lock()
		close(l.closed)
		strangers := l.waiting
		l.waiting = nil
		l.mu.Unlock()
		var wg sync.WaitGroup
		for c, late := range strangers {
			late.Stop()
			wg.Go(c.abort)
		}
		wg.Wait()
		err = l.socket.release()
	})
	return err
}

func (l *listener) Addr() net.Addr { return l.socket.conn.LocalAddr() }

// errSilent is why a connection ended from which nothing came.
var errSilent = errors.New("kcp: the peer is silent")
