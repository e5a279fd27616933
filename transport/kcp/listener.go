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

// socket is a UDP socket that a listener and its connections share; it closes when the last of
// them has released it.
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

// listener accepts connections whose clients have said hello. Any packet creates a KCP session;
// packets of an old connection create one without a hello, which is dropped.
type listener struct {
	kcp    *kcpgo.Listener
	socket *socket
	opts   *options
	conns  chan *conn
	once   sync.Once
	closed chan struct{}

	mu      sync.Mutex
	waiting map[*conn]*time.Timer       // connections not accepted yet, with the timers that drop them
	silent  transport.Handshakes[*conn] // waiting connections that have not said hello
}

// minHandshake is how long a client may always take for its hello. Clients that all connect at
// once are quicker.
const minHandshake = 100 * time.Millisecond

// greetAll greets sessions until the socket is closed, and turns away those for which there is
// no room, or that come after the listener's end.
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
	// The socket is closed. If a session waits, AcceptKCP returns it or the error of
	// the socket, at random, so it is called often.
	for range 1000 {
		if session, err := l.kcp.AcceptKCP(); err == nil {
			_ = session.Close() // the socket is gone
		}
	}
	_ = l.kcp.Close() // its socket is closed already
}

// greet waits for the hello of a new session, in goroutines of its own. It returns false if
// there is no room for it.
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
		_, waits := l.waiting[c]
		l.mu.Unlock()
		if !waits { // it was ended meanwhile: its client must not take it for accepted
			return
		}
		c.say(hello)
		l.offer(c)
	}
	c.onGone = func() {
		go l.drop(c) // which waits for the goroutine that calls onGone
	}
	c.start()
	return true
}

// hasRoomLocked reports whether one more connection may wait. If there are too many, it ends
// the one that [transport.Handshakes] selects, unless that is new.
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

// take removes a connection from those that wait. It returns false if it is not there any more.
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

// offer passes a connection to Accept, unless it is dropped first: a server that accepts
// nothing must not accumulate connections.
func (l *listener) offer(c *conn) {
	select {
	case l.conns <- c:
	case <-c.dropped:
	}
}

// turnAway tells a client that its hello, which KCP has acknowledged, will not be answered. It
// does not wait for a client whose window is closed, since other clients wait for it.
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

// errSilent is the reason when a connection has ended because nothing was received.
var errSilent = errors.New("kcp: the peer is silent")
