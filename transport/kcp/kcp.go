// Package kcp carries connections over KCP: UDP packets, of which lost ones are
// sent again sooner than TCP would, for more bytes on the way. It is for paths that
// lose packets and have bandwidth to spare.
//
//	t, err := kcp.New(kcp.WithKey(key))
//	srv := server.New(server.WithTransport("kcp", t))
//	c, err := client.Dial("kcp://host:8975", client.WithTransport("kcp", t))
//
// # Who may connect
//
// With [WithKey] packets are encrypted, and whoever does not know the key is not
// understood. That keeps strangers out, but it is no proof: the packets' checksum
// can be forged by whoever can change them on their way, and packets that were
// recorded can be sent again. Where that matters put TLS over it: transport.TLS(t,
// config).
//
// # On the wire
//
// KCP knows no beginning and no end, so the bytes of a connection are cut into
// frames: two bytes of length, low byte first, and so many bytes; or a length of
// zero and one byte that says what it is.
//
//	0 end    the sender has no more bytes
//	1 alive  nothing; idle connections send it
//	2 hello  the client's first frame, and the server's answer to it
//	3 bye    the sender has closed and needs nothing more
package kcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	kcpgo "github.com/xtaci/kcp-go/v5"

	"github.com/tandem-rpc/tandem"
)

// Option changes a transport.
type Option func(*options) error

type options struct {
	crypt        kcpgo.BlockCrypt // nil for none
	data, parity int              // shards
	window       int              // packets
	idle         time.Duration
	fast         bool
	waiting      int           // connections that a listener has not accepted
	wait         time.Duration // for each of them
}

const (
	defaultWindow = 512
	defaultIdle   = 30 * time.Second
	defaultWait   = 3 * time.Second // for a client to say hello, and to be accepted
	maxWaiting    = 1024            // connections that were not
	interval      = 10              // milliseconds between two looks at what to send
)

// WithKey encrypts packets with AES. Both sides have the same key, of 16, 24 or 32
// bytes; none by default.
func WithKey(key []byte) Option {
	return func(o *options) error {
		crypt, err := kcpgo.NewAESBlockCrypt(key)
		if err != nil {
			return fmt.Errorf("kcp: key of %d bytes: want 16, 24 or 32", len(key))
		}
		o.crypt = &locked{BlockCrypt: crypt}
		return nil
	}
}

// locked lets the sessions of a listener share a cipher, which has a buffer.
type locked struct {
	kcpgo.BlockCrypt

	mu sync.Mutex
}

// Encrypt encrypts a packet.
func (c *locked) Encrypt(dst, src []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.BlockCrypt.Encrypt(dst, src)
}

// Decrypt decrypts a packet.
func (c *locked) Decrypt(dst, src []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.BlockCrypt.Decrypt(dst, src)
}

// WithParity sends so many packets more for so many packets of data, from which
// lost ones are made good without sending them again (forward error correction).
// Both sides have the same numbers; none by default.
func WithParity(data, parity int) Option {
	return func(o *options) error {
		if data < 0 || parity < 0 || data+parity > 256 || (data == 0) != (parity == 0) {
			return fmt.Errorf("kcp: %d packets of data and %d of parity: want both, at most 256 together", data, parity)
		}
		o.data, o.parity = data, parity
		return nil
	}
}

// WithWindow sets how many packets of some 1,400 bytes may be on their way in each
// direction; 512 by default. What a window carries in a round trip bounds the
// throughput.
func WithWindow(packets int) Option {
	return func(o *options) error {
		o.window = max(packets, 32)
		return nil
	}
}

// WithIdleTimeout sets after how long a connection is given up from which nothing
// comes; 30 s by default. Each side says three times as often that it is there.
func WithIdleTimeout(d time.Duration) Option {
	return func(o *options) error {
		o.idle = max(d, time.Second)
		return nil
	}
}

// WithCongestionControl makes KCP slow down when packets are lost, as TCP does. By
// default it does not: it takes a loss for the path's way, not for a full queue.
func WithCongestionControl() Option {
	return func(o *options) error {
		o.fast = false
		return nil
	}
}

type carrier struct{ opts options }

// New returns the transport; it fails for options that can't work.
func New(opts ...Option) (tandem.Transport, error) {
	t := &carrier{options{window: defaultWindow, idle: defaultIdle, fast: true, waiting: maxWaiting, wait: defaultWait}}
	for _, opt := range opts {
		if err := opt(&t.opts); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// tune sets a session to send at once and to repeat what two later packets have
// overtaken.
func (o *options) tune(s *kcpgo.UDPSession) {
	uncontrolled := 0
	if o.fast {
		uncontrolled = 1
	}
	s.SetNoDelay(1, interval, 2, uncontrolled)
	s.SetWindowSize(o.window, o.window)
	s.SetWriteDelay(false)
	s.SetACKNoDelay(true)
}

func (t *carrier) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := t.dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("kcp: %s: %w", address, err)
	}
	return c, nil
}

// firstWait is how long the first hello waits for its answer.
const firstWait = time.Second

// dial says hello until somebody answers, each time in a session of its own and
// with twice the patience: a server that is about to end may have acknowledged a
// hello that nobody will answer.
func (t *carrier) dial(ctx context.Context, address string) (net.Conn, error) {
	var dialer net.Dialer
	probe, err := dialer.DialContext(ctx, "udp", address) // resolves, and tells our own address
	if err != nil {
		return nil, err
	}
	remote, ours := probe.RemoteAddr(), probe.LocalAddr().(*net.UDPAddr)
	if err := probe.Close(); err != nil {
		return nil, err
	}
	from := (&net.UDPAddr{IP: ours.IP, Zone: ours.Zone}).String()
	for wait := firstWait; ; wait *= 2 {
		c, err := t.greet(ctx, from, remote, wait)
		if c != nil || !errors.Is(err, errNoAnswer) || ctx.Err() != nil {
			return c, err
		}
	}
}

var errNoAnswer = errors.New("nobody answers")

// greet says hello once.
func (t *carrier) greet(ctx context.Context, from string, remote net.Addr, wait time.Duration) (net.Conn, error) {
	s, err := open(ctx, from)
	if err != nil {
		return nil, err
	}
	session, err := kcpgo.NewConn2(remote, t.opts.crypt, t.opts.data, t.opts.parity, s.conn)
	if err != nil {
		_ = s.release()
		return nil, err
	}
	c := newConn(session, s, &t.opts)
	c.start()
	c.say(hello)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.greeted:
		return c, nil
	case <-c.gone:
		err = fmt.Errorf("turned away: %w", c.why())
	case <-timer.C:
		err = errNoAnswer
	case <-ctx.Done():
		err = fmt.Errorf("%w: %w", errNoAnswer, ctx.Err())
	}
	c.abort()
	return nil, err
}

func (t *carrier) Listen(ctx context.Context, address string) (net.Listener, error) {
	s, err := open(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("kcp: %w", err)
	}
	ln, err := kcpgo.ServeConn(t.opts.crypt, t.opts.data, t.opts.parity, s.conn)
	if err != nil {
		_ = s.release()
		return nil, fmt.Errorf("kcp: %w", err)
	}
	l := &listener{kcp: ln, socket: s, opts: &t.opts, conns: make(chan *conn), closed: make(chan struct{}), waiting: map[*conn]*time.Timer{}}
	go l.greetAll() // until the socket is closed
	return l, nil
}
