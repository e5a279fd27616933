// Package kcp (experimental) makes connections over KCP: UDP packets, of which lost ones are
// sent again sooner than by TCP, at the cost of more bytes sent. It is for paths that
// lose packets and have bandwidth to spare.
//
//	t, err := kcp.New(kcp.WithKey(key))
//	srv := server.New(server.WithTransport("kcp", t))
//	c, err := client.Dial("kcp://host:8975", client.WithTransport("kcp", t))
//
// # Authentication
//
// With [WithKey] packets are encrypted, and those of a peer without the key are
// ignored. That keeps strangers out, but does not authenticate: the packets' checksum
// can be forged by an attacker who can change them on their way, and packets that were
// recorded can be sent again. Where that matters put TLS over it: transport.TLS(t,
// config).
//
// # On the wire
//
// KCP has no beginning and no end, so the bytes of a connection are sent in
// frames: two bytes of length, low byte first, and that many bytes; or a length of
// zero and one byte, the kind of the frame.
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
	data, parity int              // numbers of shards
	window       int              // packets
	idle         time.Duration
	fast         bool
	waiting      int           // most connections that wait to be accepted
	wait         time.Duration // how long each of them may wait
}

const (
	defaultWindow = 512
	defaultIdle   = 30 * time.Second
	defaultWait   = 3 * time.Second // for a client to say hello, and to be accepted
	maxWaiting    = 1024            // connections that were not accepted yet
	interval      = 10              // milliseconds between two runs of KCP's timer
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

// locked lets the sessions of a listener share a cipher, which is not safe for concurrent use.
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

// WithParity sends parity more packets for every group of data packets, from which lost ones
// are restored without sending them again (forward error correction). Both sides must have the
// same numbers; none by default.
func WithParity(data, parity int) Option {
	return func(o *options) error {
		if data < 0 || parity < 0 || data+parity > 256 || (data == 0) != (parity == 0) {
			return fmt.Errorf("kcp: %d packets of data and %d of parity: want both, at most 256 together", data, parity)
		}
		o.data, o.parity = data, parity
		return nil
	}
}

// WithWindow sets how many packets of about 1,400 bytes may be in flight in each direction; 512
// by default. A connection carries at most one window in each round trip.
func WithWindow(packets int) Option {
	return func(o *options) error {
		o.window = max(packets, 32)
		return nil
	}
}

// WithIdleTimeout sets after how long without a packet a connection is given up; 30 s by
// default. Each side sends an alive frame every third of that time.
func WithIdleTimeout(d time.Duration) Option {
	return func(o *options) error {
		o.idle = max(d, time.Second)
		return nil
	}
}

// WithCongestionControl makes KCP slow down when packets are lost, as TCP does. By default it
// does not: it takes losses for a property of the path, not for a full queue.
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

// tune sets a session to send at once, and to send a packet again when two later ones were
// acknowledged before it.
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

// firstWait is how long the first hello waits for an answer.
const firstWait = time.Second

// dial says hello until a server answers, each time in a session of its own and for twice as
// long: a server that is about to end may have acknowledged a hello that it will not answer.
func (t *carrier) dial(ctx context.Context, address string) (net.Conn, error) {
	var dialer net.Dialer
	probe, err := dialer.DialContext(ctx, "udp", address) // resolves the address, and finds our own
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

var errNoAnswer = errors.New("no answer: check that the server listens there with the same WithKey and WithParity")

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
