// Package quic (experimental) makes connections over QUIC (RFC 9000): UDP packets that are
// always encrypted, with lost packets repaired above the kernel. A client whose address
// changes, from one network to another, keeps its connection if its NAT lets it.
//
//	t, err := quic.New(config) // of crypto/tls: certificates, or roots
//	srv := server.New(server.WithTransport("quic", t))
//	c, err := client.Dial("quic://host:8974", client.WithTransport("quic", t))
//
// # On the wire
//
// A connection is one bidirectional stream, which the client opens; the client
// sends first. The protocol's name for ALPN is [NextProto]. The end of the
// stream is a half close. Flow control of calls and streams
// is tandem's own, so several streams of QUIC would gain
// independence from each other's lost packets and nothing else.
package quic

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	quicgo "github.com/quic-go/quic-go"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/transport"
)

// NextProto is the name that both sides use for tandem over QUIC in ALPN (RFC 7301).
const NextProto = "tandem"

// Option changes a transport.
type Option func(*options)

type options struct {
	early     bool
	idle      time.Duration
	keepAlive time.Duration
	window    uint64
}

const (
	defaultIdle      = 30 * time.Second
	defaultKeepAlive = 10 * time.Second
	defaultWindow    = 1 << 20
)

// WithEarlyData lets a client that has been connected to a server before send its first
// requests with its first packet, without waiting for the handshake (0-RTT). Both sides must
// have the option; it is off by default.
//
// Early data can be replayed: an attacker who has seen it on its way may send it again, to this
// server or to another one with the same key, and the server can't detect that. Its calls then
// execute twice, with the caller's credentials. So use it only for servers all of whose methods
// may be executed any number of times by anyone who has seen one call.
//
// Programs built with -race may report a race inside quic-go, between a stream that is opened
// early and the end of the handshake (quic-go's issue 4303).
func WithEarlyData() Option { return func(o *options) { o.early = true } }

// WithIdleTimeout sets after how long a connection is given up whose peer does not answer; 30 s
// by default. An idle connection is kept alive by a packet three times in that time, so that
// NATs remember it.
func WithIdleTimeout(d time.Duration) Option {
	return func(o *options) { o.idle, o.keepAlive = max(d, time.Second), max(d, time.Second)/3 }
}

// WithWindow sets how many bytes a peer may send that were not read yet; 1 MiB by default. A
// connection carries at most one window in each round trip.
func WithWindow(n int) Option {
	return func(o *options) { o.window = uint64(max(n, 16<<10)) }
}

type carrier struct {
	tls  *tls.Config
	opts options
	quic *quicgo.Config
}

// New returns the transport. The config is cloned; it has the same fields as for TLS over TCP.
// If it names no protocols, [NextProto] is added. A Dial without a ServerName verifies the host
// of the address. QUIC allows TLS 1.3 only, and a server needs certificates.
func New(config *tls.Config, opts ...Option) (tandem.Transport, error) {
	if config == nil {
		return nil, errors.New("quic: a tls.Config is needed: QUIC is always encrypted")
	}
	t := &carrier{tls: config.Clone(), opts: options{idle: defaultIdle, keepAlive: defaultKeepAlive, window: defaultWindow}}
	for _, opt := range opts {
		opt(&t.opts)
	}
	if t.tls.MinVersion = tls.VersionTLS13; len(t.tls.NextProtos) == 0 {
		t.tls.NextProtos = []string{NextProto}
	}
	if t.opts.early && t.tls.ClientSessionCache == nil {
		t.tls.ClientSessionCache = tls.NewLRUClientSessionCache(0)
	}
	t.quic = &quicgo.Config{
		MaxIdleTimeout:                 t.opts.idle,
		KeepAlivePeriod:                t.opts.keepAlive,
		InitialStreamReceiveWindow:     t.opts.window,
		MaxStreamReceiveWindow:         t.opts.window,
		InitialConnectionReceiveWindow: t.opts.window,
		MaxConnectionReceiveWindow:     t.opts.window,
		MaxIncomingStreams:             1,
		MaxIncomingUniStreams:          -1, // none
		Allow0RTT:                      t.opts.early,
	}
	return t, nil
}

// Secure refuses a second TLS.
func (t *carrier) Secure(*tls.Config) (tandem.Transport, error) { return nil, errSecured }

// errSecured is the error of WithTLS with this transport.
var errSecured = fmt.Errorf("QUIC's TLS is what quic.New is given: %w", transport.ErrSecured)

func (t *carrier) Dial(ctx context.Context, address string) (net.Conn, error) {
	c, err := t.dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("quic: %s: %w", address, err)
	}
	return c, nil
}

func (t *carrier) dial(ctx context.Context, address string) (net.Conn, error) {
	remote, err := resolve(ctx, address)
	if err != nil {
		return nil, err
	}
	config := t.tls
	if config.ServerName == "" && !config.InsecureSkipVerify {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		config = config.Clone()
		config.ServerName = host
	}
	s, err := open(ctx, local(remote))
	if err != nil {
		return nil, err
	}
	dial := s.udp.Dial
	if t.opts.early {
		dial = s.udp.DialEarly
	}
	c, err := dial(ctx, remote, config, t.quic)
	if err != nil {
		return nil, errors.Join(err, s.release())
	}
	stream, err := c.OpenStreamSync(ctx)
	if err != nil {
		return nil, errors.Join(err, c.CloseWithError(0, ""), s.release())
	}
	return newDialed(c, stream, s), nil
}

// resolve returns the UDP address of a peer.
func resolve(ctx context.Context, address string) (*net.UDPAddr, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "udp", port)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(ips, func(a, b netIP) int { return a.Unmap().BitLen() - b.Unmap().BitLen() }) // IPv4 first: it is more likely to work
	ip := ips[0].Unmap()
	return &net.UDPAddr{IP: ip.AsSlice(), Zone: ip.Zone(), Port: number}, nil
}

// local returns the address to send from: any port of the same IP version.
func local(remote *net.UDPAddr) string {
	if remote.IP.To4() != nil {
		return "0.0.0.0:0"
	}
	return "[::]:0"
}

func (t *carrier) Listen(ctx context.Context, address string) (net.Listener, error) {
	if err := transport.CheckServerTLS(t.tls); err != nil {
		return nil, fmt.Errorf("quic: listen: %w", err)
	}
	s, err := open(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("quic: %w", err)
	}
	ln := &listener{socket: s}
	if t.opts.early {
		ln.early, err = s.udp.ListenEarly(t.tls, t.quic)
	} else {
		ln.full, err = s.udp.Listen(t.tls, t.quic)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("quic: %w", err), s.release())
	}
	return ln, nil
}
