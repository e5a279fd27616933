package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// Times of a link.
const (
	// connectWait is how long an operation waits for the session.
	connectWait = 5 * time.Second
	// hintSpread bounds the random delay of hint after a new session, so that processes that
	// lost theirs together don't write together.
	hintSpread = 500 * time.Millisecond
	// rearm is the time given to the library to set its watches again after it has
	// reconnected. The library does not report when that is done. With the watches it sends
	// the number of the last transaction that it has seen: a response that changes this number
	// before that would make it miss events.
	rearm = 20 * time.Millisecond
	// leavingsEvery is the interval between attempts to delete the nodes that closed
	// entries could not delete.
	leavingsEvery = 5 * time.Second
	// closeWait bounds how long close waits for the link's goroutines.
	closeWait = 5 * time.Second
)

// maxPacket is the largest response from a server, in bytes: twice the names of a full
// list. The library closes the connection at a larger one.
const maxPacket = 16 << 20

// link holds a session with the ensemble, and begins another when that one has ended,
// until it is closed. It is safe for concurrent use.
type link struct {
	options      *options
	servers      string
	hostProvider *hostProvider
	ttl          time.Duration
	patience     time.Duration   // how long a server may take to accept, and then to send its first response
	known        *zk.Conn        // the connection that has been authenticated; used by run's goroutine only
	ctx          context.Context // ends when close is called
	stop         context.CancelFunc
	changed      chan struct{} // has a token when the session's state has changed
	ended        chan struct{} // closed when the library's goroutine and run have ended

	mu        sync.Mutex
	conn      *zk.Conn // nil until the library has begun
	socket    net.Conn
	connected bool          // the library has a session; up is closed once it is set up
	count     int           // number of connections lost
	lostAt    time.Time     // when the last one was lost
	refused   bool          // a connection was lost after lostAt, before it had a session
	up        chan struct{} // closed while operations may be sent
	down      chan struct{} // closed when the connection is lost; replaced when up is closed
	session   int64         // number of the last session that was set up
	trouble   error         // why up is not closed
	watching  watching
	hints     map[chan<- struct{}]bool // channels of the registrations that hint sends to
	claims    map[string]*entry        // the owners of nodes, by path
	leavings  map[*entry]bool          // closed entries with nodes that could not be deleted
}

// openLink returns a link that connects in the background.
func openLink(key string, o *options) (*link, error) {
	list, ttlText, _ := strings.Cut(key, "?")
	ttl, err := time.ParseDuration(ttlText)
	if err != nil {
		return nil, err
	}
	servers, err := parseServers(list)
	if err != nil {
		return nil, err
	}
	l := &link{
		options: o, servers: list, hostProvider: newHostProvider(servers), ttl: ttl, patience: dialTimeout(ttl, len(servers)),
		changed: make(chan struct{}, 1), ended: make(chan struct{}),
		up: make(chan struct{}), down: make(chan struct{}),
		trouble:  errors.New("no server has answered yet"),
		hints:    make(map[chan<- struct{}]bool),
		claims:   make(map[string]*entry),
		leavings: make(map[*entry]bool),
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	go l.run()
	return l, nil
}

// chatter writes the library's log at level Debug: most of it is about connections that
// are opened and closed.
type chatter struct{ log *slog.Logger }

func (c chatter) Printf(format string, args ...any) {
	c.log.Debug(name + ": " + fmt.Sprintf(format, args...))
}

// event is called by the library for every event. It must not block. (The library's
// channels drop events when their receiver is too slow.)
func (l *link) event(e zk.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Type != zk.EventSession {
		l.watching.fired(e)
		return
	}
	switch e.State {
	case zk.StateHasSession:
		l.connected, l.refused = true, false
		l.wakeLocked()
	case zk.StateExpired:
		l.watching.forget()
		l.hostProvider.again()
		l.lostLocked(zk.ErrSessionExpired)
	case zk.StateDisconnected:
		l.lostLocked(zk.ErrConnectionClosed)
	}
}

func (l *link) wakeLocked() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

// lostLocked notes that the connection is lost.
func (l *link) lostLocked(why error) {
	l.count++
	l.refused = !l.connected // if connected, a session's connection was lost
	l.connected = false
	l.trouble = why
	if isClosed(l.up) {
		l.up = make(chan struct{})
		l.lostAt = time.Now()
		close(l.down)
	}
	l.wakeLocked()
}

// fail notes why there is no connection.
func (l *link) fail(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trouble = why
}

// hold notes the connection in use, nil for none, and closes the one before, which the
// library does not close when its session has expired.
func (l *link) hold(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket != nil {
		l.socket.Close() //nolint:errcheck // it is not used any more
	}
	l.socket = conn
	if conn != nil && l.ctx.Err() != nil {
		conn.Close() //nolint:errcheck // the link is closed
	}
}

// run keeps the library connected until the link is closed.
func (l *link) run() {
	defer close(l.ended)
	for l.ctx.Err() == nil {
		conn, events, err := zk.Connect(l.hostProvider.servers, l.ttl,
			zk.WithHostProvider(l.hostProvider), zk.WithDialer(l.dial), zk.WithEventCallback(l.event),
			zk.WithMaxBufferSize(maxPacket), zk.WithLogger(chatter{l.options.log}), zk.WithLogInfo(false))
		if err != nil { // does not happen with at least one server
			l.fail(err)
			return
		}
		l.mu.Lock()
		l.conn = conn
		l.wakeLocked()
		l.mu.Unlock()
		l.serve(conn, events)
	}
}

// serve sets up sessions until the link or conn is closed, or a session is hopeless.
func (l *link) serve(conn *zk.Conn, events <-chan zk.Event) {
	tick := time.NewTicker(leavingsEvery)
	defer tick.Stop()
	for {
		select {
		case _, ok := <-events: // the callback has handled it
			if !ok {
				return
			}
		case <-l.changed:
			if l.hopeless(conn) {
				l.options.log.Warn(name+": the servers don't accept the session any more; starting another", "servers", l.servers)
				l.end(conn, events)
				return
			}
			l.setUp(conn)
		case <-tick.C:
			l.cleanUp()
		case <-l.ctx.Done():
			l.end(conn, events)
			return
		}
	}
}

// end closes the library's connection and waits for its goroutine.
func (l *link) end(conn *zk.Conn, events <-chan zk.Event) {
	l.hold(nil)
	conn.Close()
	for range events { // until it has ended
	}
}

// hopeless reports whether the session is to be given up: the servers respond, but have
// not accepted it again within the session timeout. A server that has lost its data never
// does, as the client has seen later transactions than the server has.
func (l *link) hopeless(conn *zk.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.refused || conn.SessionID() == 0 || time.Since(l.lostAt) < l.ttl {
		return false
	}
	l.refused, l.lostAt = false, time.Now()
	l.watching.forget()
	return true
}

// setUp makes a connection usable: it authenticates, gives the library time to set its
// watches, and closes up. After an expired session it calls hint.
func (l *link) setUp(conn *zk.Conn) {
	l.mu.Lock()
	count, ready := l.count, l.connected
	l.mu.Unlock()
	if !ready || !l.authenticate(conn) {
		return
	}
	l.rest(rearm)
	session := conn.SessionID()
	l.mu.Lock()
	ready = l.connected && l.count == count && !isClosed(l.up)
	fresh := l.session != 0 && l.session != session
	if ready {
		l.session, l.trouble, l.down = session, nil, make(chan struct{})
		close(l.up)
	}
	l.mu.Unlock()
	if !ready {
		return
	}
	l.cleanUp()
	if fresh {
		l.options.log.Warn(name+": the session has expired; registering again", "servers", l.servers)
		l.rest(rand.N(hintSpread))
		l.hint()
	}
}

// authenticate sends the user and password, once for each conn: the library repeats
// them when it reconnects.
func (l *link) authenticate(conn *zk.Conn) bool {
	if l.options.user == "" || l.known == conn {
		return true
	}
	if err := conn.AddAuth("digest", []byte(l.options.user)); err != nil {
		l.fail(fmt.Errorf("authenticating: %w", err))
		return false
	}
	l.known = conn
	return true
}

// rest waits for d, or until the link is closed.
func (l *link) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.ctx.Done():
	}
}

// unusable returns why no operation can be sent at the moment, nil if one can.
func (l *link) unusable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if isClosed(l.up) {
		return nil
	}
	return fmt.Errorf("not connected to %s: %w", l.servers, l.trouble)
}

// sessionID returns the session's number, which is the owner of its nodes.
func (l *link) sessionID() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// await waits until operations can be sent, at most for connectWait. The channel lost is
// closed when the connection is lost.
func (l *link) await(ctx context.Context) (conn *zk.Conn, lost <-chan struct{}, err error) {
	timeout := time.NewTimer(connectWait)
	defer timeout.Stop()
	for {
		l.mu.Lock()
		up, conn, lost := l.up, l.conn, l.down
		usable := isClosed(up)
		l.mu.Unlock()
		if usable {
			return conn, lost, ctx.Err()
		}
		select {
		case <-up:
		case <-ctx.Done():
			return nil, nil, l.unreachable(ctx.Err())
		case <-l.ctx.Done():
			return nil, nil, errClosed
		case <-timeout.C:
			return nil, nil, l.unreachable(errors.New("no session"))
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// unreachable returns why there is no session. The error wraps end, the reason why the
// caller has stopped waiting.
func (l *link) unreachable(end error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trouble == nil {
		return end
	}
	return fmt.Errorf("not connected to %s: %w (%w)", l.servers, l.trouble, end)
}

// close ends the session and the link's goroutines. If the servers can be reached, the
// session's nodes are deleted.
func (l *link) close() {
	l.mu.Lock()
	conn, connected := l.conn, l.connected
	l.mu.Unlock()
	if connected && conn != nil {
		conn.Close() // waits for the answer, a second at most
	}
	l.stop()
	select {
	case <-l.ended:
	case <-time.After(closeWait):
	}
}
