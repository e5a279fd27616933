package kcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	kcpgo "github.com/xtaci/kcp-go/v5"

	"github.com/tandem-rpc/tandem/transport"
)

// partTime is how long a closed connection waits for its peer to read what
// was written before, and sendTime how long it waits for the last packet to leave.
const (
	partTime = time.Second
	sendTime = 5 * interval * time.Millisecond
)

// conn is a KCP session with a beginning and an end. Two goroutines move bytes between it and
// two bounded buffers, whose deadlines are the connection's: those of a session can't be
// changed while it is read or written.
type conn struct {
	session *kcpgo.UDPSession
	socket  *socket
	idle    time.Duration
	in, out *transport.Inbox

	onHello func() // called when the peer's hello has arrived; nil at the client
	onGone  func()
	tick    *time.Timer

	greeted chan struct{} // closed when the peer's hello has arrived
	dropped chan struct{} // closed by abort
	ended   chan struct{} // closed when the peer's end has arrived
	sent    chan struct{} // closed when the session has all written bytes and our end, or has failed
	gone    chan struct{} // closed when nothing is received any more

	answered bool // the peer's end came after ours; valid when ended is closed

	mu     sync.Mutex
	closed bool
	reason error // why nothing is received any more; valid when gone is closed
}

func newConn(session *kcpgo.UDPSession, s *socket, o *options) *conn {
	o.tune(session)
	return &conn{
		session: session, socket: s, idle: o.idle, in: transport.NewInbox(), out: transport.NewInbox(),
		greeted: make(chan struct{}), dropped: make(chan struct{}), ended: make(chan struct{}), sent: make(chan struct{}), gone: make(chan struct{}),
	}
}

// start begins to receive and to send, until the session is closed, by abort or part.
func (c *conn) start() {
	c.tick = time.AfterFunc(c.idle/3, c.stayAlive)
	go c.receive()
	go c.send()
}

// stayAlive sends an alive frame, and schedules the next.
func (c *conn) stayAlive() {
	if _, err := c.session.Write(control(alive)); err == nil {
		c.tick.Reset(c.idle / 3)
	}
}

// say sends a frame without bytes. It waits while the window is full.
func (c *conn) say(k kind) {
	_, _ = c.session.Write(control(k)) // receive notices when the session is over
}

func (c *conn) isGreeted() bool { return isDone(c.greeted) }

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// why returns why nothing is received any more.
func (c *conn) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reason
}

// receive moves received bytes to the inbox until the peer says bye, is silent for too long, or
// breaks the protocol, or the session is closed.
func (c *conn) receive() {
	err := c.receiveAll()
	c.mu.Lock()
	c.reason = err
	c.mu.Unlock()
	c.in.End(err)
	c.out.Close() // writes must fail now
	close(c.gone)
	if c.onGone != nil {
		c.onGone()
	}
}

func (c *conn) receiveAll() error {
	var p parser
	buf := make([]byte, 4<<10)
	for {
		if err := c.session.SetReadDeadline(time.Now().Add(c.idle)); err != nil {
			return err
		}
		n, err := c.session.Read(buf)
		if err != nil {
			return c.lost(err)
		}
		if err := p.feed(buf[:n], c.take, c.heard); err != nil {
			return err
		}
	}
}

// lost translates the error of a session's Read.
func (c *conn) lost(err error) error {
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("%w: nothing for %v", errSilent, c.idle)
	}
	return net.ErrClosed
}

// take stores received bytes, or discards them if the connection is closed at this side.
func (c *conn) take(b []byte) error {
	if _, err := c.in.Write(b); err != nil && !c.isClosed() {
		return err
	}
	return nil
}

func (c *conn) heard(k kind) error {
	switch k {
	case hello:
		if c.isGreeted() {
			return errors.New("kcp: the peer says hello twice")
		}
		close(c.greeted)
		if c.onHello != nil {
			c.onHello()
		}
	case end:
		if isDone(c.ended) {
			return errors.New("kcp: the peer ends twice")
		}
		c.answered = isDone(c.sent)
		c.in.End(io.EOF)
		close(c.ended)
	case bye:
		return io.EOF
	default:
	}
	return nil
}

// send moves written bytes to the session, in frames.
func (c *conn) send() {
	defer close(c.sent)
	buf := make([]byte, headLen+maxFrame)
	for {
		n, err := c.out.Read(buf[headLen:])
		if n > 0 {
			binary.LittleEndian.PutUint16(buf, uint16(n)) //nolint:gosec // at most maxFrame
			if _, err := c.session.Write(buf[:headLen+n]); err != nil {
				return
			}
		}
		if errors.Is(err, io.EOF) {
			c.say(end)
		}
		if err != nil {
			return
		}
	}
}

func (c *conn) Read(p []byte) (int, error) { return c.in.Read(p) }

func (c *conn) Write(p []byte) (int, error) { return c.out.Write(p) }

// CloseWrite ends the sending direction after everything that was written.
func (c *conn) CloseWrite() error {
	c.out.End(io.EOF)
	return nil
}

func (c *conn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Close ends the connection, and tells the peer. What was written before still reaches a peer
// that reads it within a second; Close does not wait for that.
func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.in.Close()
	c.out.End(io.EOF)
	go c.part() // ends in partTime
	return nil
}

// part closes the session after the peer has learned of the connection's end. If the peer's end
// comes after ours, the peer has read ours, or has closed too: bye tells it that it need not
// wait. If it came before ours, the peer says bye when it has read ours.
func (c *conn) part() {
	stop := time.AfterFunc(partTime, func() { _ = c.session.Close() }) // ends every wait
	defer stop.Stop()
	select {
	case <-c.sent:
	case <-c.gone:
	}
	select {
	case <-c.ended:
	case <-c.gone:
	}
	if !isDone(c.ended) || c.answered {
		c.sayBye()
	} else {
		<-c.gone
	}
	c.over()
}

// sayBye says bye, and waits until the packet has left.
func (c *conn) sayBye() {
	c.say(bye)
	pause := time.NewTimer(sendTime)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-c.gone:
	}
}

// abort ends a connection that has not begun.
func (c *conn) abort() {
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	c.mu.Unlock()
	if first {
		close(c.dropped)
		stop := time.AfterFunc(partTime, func() { _ = c.session.Close() }) // ends the wait for a peer whose window is closed
		c.sayBye()                                                         // so that the peer does not wait
		stop.Stop()
		c.over()
	}
}

// over closes the session and waits for the goroutines.
func (c *conn) over() {
	c.tick.Stop()
	_ = c.session.Close() // may be closed already
	c.in.Close()
	c.out.Close()
	<-c.gone
	<-c.sent
	_ = c.socket.release() // its error changes nothing
}

func (c *conn) LocalAddr() net.Addr  { return c.session.LocalAddr() }
func (c *conn) RemoteAddr() net.Addr { return c.session.RemoteAddr() }

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.in.SetReadDeadline(t), c.out.SetWriteDeadline(t))
}

func (c *conn) SetReadDeadline(t time.Time) error { return c.in.SetReadDeadline(t) }

func (c *conn) SetWriteDeadline(t time.Time) error { return c.out.SetWriteDeadline(t) }
