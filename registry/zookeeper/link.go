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
	// hintSpread is within which time registrations are told of a new session, so
	// that the processes that lost theirs together don't write together.
	hintSpread = 500 * time.Millisecond
	// rearm is the time in which the library, connected again, sends what it
	// watches. It says so to nobody, reads its last transaction number while it is
	// written by answers, and misses events that come between the two.
	rearm = 20 * time.Millisecond
	// leavingsEvery is how often what could not be deleted is tried again.
	leavingsEvery = 5 * time.Second
	// closeWait bounds the end of the library's goroutine.
	closeWait = 5 * time.Second
)

// maxPacket is the largest answer from a server, in bytes: the names of a full list,
// and as much again. The library ends the connection at a larger one.
const maxPacket = 16 << 20

// link is one session with the ensemble at a time, for ever, until it is closed. It
// is safe for concurrent use.
type link struct {
	options  *options
	servers  string
	rota     *rota
	ttl      time.Duration
	patience time.Duration   // for a server to accept, and for it to answer first
	known    *zk.Conn        // the one that knows the user; of the goroutine of run
	ctx      context.Context // ends when close is called
	stop     context.CancelFunc
	changed  chan struct{} // has a token when the session's state has changed
	ended    chan struct{} // the library's goroutine and our own have ended

	mu        sync.Mutex
	conn      *zk.Conn // nil until the library has begun
	socket    net.Conn
	connected bool          // the library has a session; set up is what up says
	count     int           // of connections lost
	lostAt    time.Time     // when the last one was lost
	refused   bool          // no session was had from a server since then
	up        chan struct{} // closed while operations may be sent
	down      chan struct{} // closed when the connection is lost; made anew with up
	session   int64         // the last one that was up
	trouble   error         // why it is not up
	watching  watching
	hints     map[chan<- struct{}]bool // of registrations
	claims    map[string]*entry        // whose the nodes are, by path
	leavings  map[*entry]bool          // closed, with nodes that could not be deleted
}

// openLink begins to connect, and does not wait for that.
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
		options: o, servers: list, rota: newRota(servers), ttl: ttl, patience: dialTimeout(ttl, len(servers)),
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

// chatter takes the library's log, most of which is about connections that come
// and go.
type chatter struct{ log *slog.Logger }

func (c chatter) Printf(format string, args ...any) {
	c.log.Debug(name + ": " + fmt.Sprintf(format, args...))
}

// event is what the library calls for everything that happens. It must not wait.
// (The library's channels lose events when nobody is quick enough to take them.)
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
		l.rota.again()
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
	l.refused = !l.connected // or else it was lost just now
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

// hold notes the connection that is in use, in place of the last, which the library
// forgets to close when its session has expired.
func (l *link) hold(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.socket != nil {
		l.socket.Close() //nolint:errcheck // nobody uses it any more
	}
	l.socket = conn
	if conn != nil && l.ctx.Err() != nil {
		conn.Close() //nolint:errcheck // as above
	}
}

// run has the library connect until the link is closed.
func (l *link) run() {
	defer close(l.ended)
	for l.ctx.Err() == nil {
		conn, events, err := zk.Connect(l.rota.servers, l.ttl,
			zk.WithHostProvider(l.rota), zk.WithDialer(l.dial), zk.WithEventCallback(l.event),
			zk.WithMaxBufferSize(maxPacket), zk.WithLogger(chatter{l.options.log}), zk.WithLogInfo(false))
		if err != nil { // not with a server to try
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

// serve sets sessions up until the library ends, which it does when it is closed.
func (l *link) serve(conn *zk.Conn, events <-chan zk.Event) {
	tick := time.NewTicker(leavingsEvery)
	defer tick.Stop()
	for {
		select {
		case _, ok := <-events: // the callback has seen it
			if !ok {
				return
			}
		case <-l.changed:
			if l.hopeless(conn) {
				l.options.log.Warn(name+": the servers don't take the session back; beginning another", "servers", l.servers)
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

// hopeless reports whether the session is to be given up: the servers answer, but have
// not taken it back for as long as it may last. A server that has lost its data never
// does: it knows less than the client has seen.
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

// setUp makes a connection usable: it authenticates, gives the library time for its
// watches, and lets operations through. Then it tells those who have lost something.
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
		l.options.log.Warn(name+": the session has expired; registering anew", "servers", l.servers)
		l.rest(rand.N(hintSpread))
		l.hint()
	}
}

// authenticate says who we are. Having taken it once, the library repeats it.
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

// rest waits, unless the link is closed.
func (l *link) rest(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.ctx.Done():
	}
}

// unusable says why no operation can be sent at the moment, nil if one can.
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

// await returns when operations can be sent, with what is closed when the connection
// is lost. It fails after connectWait.
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

// unreachable says why there is no session.
func (l *link) unreachable(end error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trouble == nil {
		return end
	}
	return fmt.Errorf("not connected to %s: %w (%w)", l.servers, l.trouble, end)
}

// close ends the session, which deletes its nodes, if the servers can be reached,
// and everything of the link.
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
