package client

import (
	"context"
	"crypto/tls"
	"log/slog"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/file"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

// Option changes a [Client].
type Option func(*options)

type options struct {
	codec               string
	codecs              []tandem.Codec
	compressor          string
	compressors         []tandem.Compressor
	compressAbove       int
	transports          map[string]tandem.Transport
	resolvers           map[string]registry.Resolver
	policy              balance.Policy
	failMode            tandem.FailMode
	retries             int
	budgetShare         float64
	budgetRate          int
	interceptors        []tandem.Interceptor
	attemptInterceptors []tandem.Interceptor
	timeout             time.Duration
	connectTimeout      time.Duration
	connections         int
	backoff             backoff
	maxMessage          int
	streamWindow        int
	logger              *slog.Logger // nil: quiet, save for panics of methods
	register            []func(*dispatch.Table) error
}

func defaults() options {
	return options{
		codec:         "gob",
		codecs:        []tandem.Codec{codec.Gob(), codec.JSON(), codec.Raw(), codec.Generated()},
		compressors:   []tandem.Compressor{compress.Gzip(), compress.Deflate()},
		compressAbove: 1 << 10,
		transports:    map[string]tandem.Transport{"tcp": transport.TCP(), "unix": transport.Unix()},
		resolvers: map[string]registry.Resolver{
			"tcp": registry.Single("tcp"), "unix": registry.Single("unix"),
			"static": registry.Static(), "dns": registry.DNS(), "file": file.Resolver(),
		},
		policy:         balance.RoundRobin(),
		failMode:       tandem.Failfast,
		retries:        2,
		budgetShare:    0.1,
		budgetRate:     10,
		timeout:        defaultTimeout,
		connectTimeout: defaultConnectTimeout,
		connections:    1,
		backoff:        backoff{first: 100 * time.Millisecond, most: 3 * time.Second},
		maxMessage:     wire.DefaultMaxMessage,
		streamWindow:   session.DefaultStreamWindow,
	}
}

// WithCodec adds a codec and makes it the one of calls that name none. The
// default is gob.
func WithCodec(c tandem.Codec) Option {
	return func(o *options) {
		o.codecs = replace(o.codecs, c, tandem.Codec.Name)
		o.codec = c.Name()
	}
}

// WithCodecs adds codecs that calls may name, to gob, JSON, raw and generated.
func WithCodecs(codecs ...tandem.Codec) Option {
	return func(o *options) {
		for _, c := range codecs {
			o.codecs = replace(o.codecs, c, tandem.Codec.Name)
		}
	}
}

// WithCompressor adds a compressor and makes it the one of all calls. Messages
// below 1 KiB are sent as they are.
func WithCompressor(c tandem.Compressor) Option {
	return func(o *options) {
		o.compressors = replace(o.compressors, c, tandem.Compressor.Name)
		o.compressor = c.Name()
	}
}

// WithCompressors adds compressors that calls may name, to gzip and deflate.
func WithCompressors(compressors ...tandem.Compressor) Option {
	return func(o *options) {
		for _, c := range compressors {
			o.compressors = replace(o.compressors, c, tandem.Compressor.Name)
		}
	}
}

// WithCompressAbove sets the size in bytes from which messages of calls with a
// compressor are compressed; 1 KiB by default.
func WithCompressAbove(n int) Option { return func(o *options) { o.compressAbove = n } }

func replace[T any](list []T, v T, name func(T) string) []T {
	for i := range list {
		if name(list[i]) == name(v) {
			list[i] = v
			return list
		}
	}
	return append(list, v)
}

// WithTransport adds a transport for endpoints of that name, or replaces it,
// and makes name://address a target.
func WithTransport(name string, t tandem.Transport) Option {
	return func(o *options) {
		o.transports[name] = t
		if o.resolvers[name] == nil {
			o.resolvers[name] = registry.Single(name)
		}
	}
}

// WithTLS puts TLS on the tcp transport. Servers are verified: by the host of
// their address unless the config names one.
func WithTLS(config *tls.Config) Option {
	return func(o *options) { o.transports["tcp"] = transport.TLS(transport.TCP(), config) }
}

// WithResolver adds a resolver for targets of a scheme, or replaces it. Dial
// asks one that is a [registry.Checker] whether the target can work.
func WithResolver(scheme string, r registry.Resolver) Option {
	return func(o *options) { o.resolvers[scheme] = r }
}

// WithBalancer sets the policy that chooses an instance; round robin by
// default.
func WithBalancer(p balance.Policy) Option { return func(o *options) { o.policy = p } }

// WithFailMode sets what happens when an attempt fails; [Failfast] by default.
func WithFailMode(m tandem.FailMode) Option { return func(o *options) { o.failMode = m } }

// WithRetries sets how many further attempts Failover and Failtry make; 2 by
// default.
func WithRetries(n int) Option { return func(o *options) { o.retries = max(0, n) } }

// WithRetryBudget bounds all retries of the client: share of its calls (0.1 is
// 10 %) plus perSecond. The default is 0.1 and 10.
func WithRetryBudget(share float64, perSecond int) Option {
	return func(o *options) { o.budgetShare, o.budgetRate = share, perSecond }
}

// WithInterceptors adds interceptors of the call chain, which runs once a
// call, outside the fail mode. The first is the outermost.
func WithInterceptors(i ...tandem.Interceptor) Option {
	return func(o *options) { o.interceptors = append(o.interceptors, i...) }
}

// WithAttemptInterceptors adds interceptors of the attempt chain, which runs
// for every attempt, inside the fail mode.
func WithAttemptInterceptors(i ...tandem.Interceptor) Option {
	return func(o *options) { o.attemptInterceptors = append(o.attemptInterceptors, i...) }
}

// WithTimeout sets the deadline of calls that have none; 5 s by default, 0 for
// none.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// WithConnectTimeout sets how long connecting and the handshake may take; 3 s
// by default.
func WithConnectTimeout(d time.Duration) Option { return func(o *options) { o.connectTimeout = d } }

// WithConnections sets how many connections are held to each instance; 1 by
// default, which is best unless TLS or a saturated core says otherwise.
func WithConnections(n int) Option { return func(o *options) { o.connections = min(max(1, n), 64) } }

// WithBackoff sets the pause before the first reconnect and the longest one;
// between them it doubles. The actual pause is random between zero and that
// ("full jitter"). The default is 100 ms and 3 s.
func WithBackoff(first, most time.Duration) Option {
	return func(o *options) { o.backoff = backoff{max(first, time.Millisecond), max(first, most)} }
}

// WithMaxMessage sets the largest message accepted, in bytes, before and after
// decompression; 4 MiB by default.
func WithMaxMessage(n int) Option { return func(o *options) { o.maxMessage = max(1, n) } }

// WithStreamWindow sets how many bytes of a stream's messages the peer may send
// before they are received here; 1 MiB by default, 16 KiB at least and 64 MiB at
// most. All streams of a connection together may have 16 times as many. What
// one window carries in a round trip bounds a stream's throughput.
func WithStreamWindow(n int) Option {
	return func(o *options) { o.streamWindow = min(max(wire.MinWindow, n), session.MaxStreamWindow) }
}

// WithLogger sets the log. By default, which nil also means, only panics of
// methods that servers call on this client are logged, to slog's default logger.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithService lets servers call the methods of rcvr on this client, through
// their connections to it. See the server's Peer.
func WithService(name string, rcvr any) Option {
	return func(o *options) {
		o.register = append(o.register, func(t *dispatch.Table) error { return t.RegisterName(name, rcvr) })
	}
}

// WithFunc lets servers call a typed function on this client.
func WithFunc[Args, Reply any](name string, f func(context.Context, *Args) (*Reply, error)) Option {
	return func(o *options) {
		o.register = append(o.register, func(t *dispatch.Table) error { return t.Add(dispatch.UnaryMethod(name, f)) })
	}
}
