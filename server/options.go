package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime/debug"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/internal/settings"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

// Option changes a [Server]. The defaults are safe.
type Option func(*options)

type options struct {
	wrong         []error        // an error for each invalid value of an option
	given         settings.Given // the options that were given
	codecs        []tandem.Codec
	compressors   []tandem.Compressor
	compressAbove int
	transports    map[string]tandem.Transport
	secured       bool        // every connection has TLS
	tls           *tls.Config // the configuration if secured
	protocols     []Protocol
	interceptors  []tandem.Interceptor
	plugins       []any
	timeout       time.Duration
	limiter       *limiter
	guarded       bool // overload control is on
	overload      overload.Config
	trusts        func(*tandem.Peer) bool // reports whether a caller may send calls above Normal
	baggage       Baggage
	rules         *Rules // nil for none
	maxMessage    int
	maxOpen       int
	streamWindow  int
	memory        int64
	maxDecoded    int64
	maxConns      int
	maxGreeting   int
	proxies       []netip.Prefix
	handshake     time.Duration
	stall         time.Duration
	silence       time.Duration
	maxAge        time.Duration // the longest age of a connection; 0 for no limit
	ageGrace      time.Duration
	lameDuck      time.Duration
	logger        *slog.Logger
	memberships   []membership
	reportEvery   time.Duration
	clients       bool                                       // clients may announce themselves
	allowClient   func(ctx context.Context, id string) error // may be nil
}

const (
	defaultCompressAbove = 1 << 10
	defaultHandshake     = 3 * time.Second
	defaultStall         = 10 * time.Second
	leastSilence         = 2 * time.Second // the least value of WithSilence
)

func defaults() options {
	return options{
		codecs:        []tandem.Codec{codec.Gob(), codec.JSON(), codec.Raw(), codec.Generated()},
		compressors:   []tandem.Compressor{compress.Gzip(), compress.Deflate()},
		compressAbove: defaultCompressAbove,
		transports:    map[string]tandem.Transport{"tcp": transport.TCP(), "unix": transport.Unix()},
		guarded:       true,
		trusts:        isVerified,
		baggage:       Baggage{Keys: defaultBaggageKeys()},
		maxMessage:    wire.DefaultMaxMessage,
		maxOpen:       wire.DefaultMaxOpen,
		streamWindow:  session.DefaultStreamWindow,
		memory:        defaultMemory(),
		maxDecoded:    defaultMaxDecoded,
		maxGreeting:   1024,
		reportEvery:   defaultReportEvery,
		handshake:     defaultHandshake,
		stall:         defaultStall,
		silence:       session.DefaultSilence,
	}
}

// WithCodecs adds codecs to raw, gob, JSON and generated. A codec replaces one of the same
// name. Methods with messages of Protocol Buffers need the codec of package codec/protobuf,
// which a protocol may bring ([CodecProvider]).
func WithCodecs(codecs ...tandem.Codec) Option {
	return func(o *options) {
		for _, c := range codecs {
			if o.want(c != nil, "WithCodecs", c, "a codec") {
				o.codecs = replace(o.codecs, c, tandem.Codec.Name)
			}
		}
	}
}

// WithCompressors adds compressors to gzip and deflate.
func WithCompressors(compressors ...tandem.Compressor) Option {
	return func(o *options) {
		for _, c := range compressors {
			if o.want(c != nil, "WithCompressors", c, "a compressor") {
				o.compressors = replace(o.compressors, c, tandem.Compressor.Name)
			}
		}
	}
}

func replace[T any](list []T, v T, name func(T) string) []T {
	for i := range list {
		if name(list[i]) == name(v) {
			list[i] = v
			return list
		}
	}
	return append(list, v)
}

// WithCompressAbove sets the size in bytes from which responses of calls with a
// compressor are compressed; 1 KiB by default. It is for tandem's own protocol, as
// [WithCompressors] is: others have rules of their own.
func WithCompressAbove(n int) Option {
	return func(o *options) {
		o.want(n >= 0, "WithCompressAbove", n, "0 bytes at least")
		o.compressAbove = n
	}
}

// WithTransport adds a transport, or replaces the one of the same name. [WithTLS] applies to it
// too.
func WithTransport(name string, t tandem.Transport) Option {
	return func(o *options) {
		o.want(name != "" && t != nil, "WithTransport", name, "a name and a transport")
		o.transports[name] = t
	}
}

// WithTLS puts TLS on every connection of the server: of each transport, of listeners given to
// ServeListener, of connections given to ServeProtocol, and for every protocol. With ClientAuth
// set, the client's certificates are in the call's Peer.
//
// A transport or listener that has TLS already, such as QUIC or a listener of package tls, or
// that can't have it, is refused before a connection is accepted, and so is a config without
// certificates. For TLS on some listeners only, leave WithTLS out and use [transport.TLS] in a
// transport.
func WithTLS(config *tls.Config) Option {
	return func(o *options) {
		o.given.Add("WithTLS")
		o.tls, o.secured = config, true
	}
}

// WithInterceptors adds interceptors around every method, unary and streaming, in order: the
// first sees a call first. They run before the arguments are decompressed and decoded, and
// before a caller learns whether the method exists: calls of methods that do not exist pass
// them too, with the first KiB of the name that the caller sent. They apply to all methods of
// the server.
func WithInterceptors(i ...tandem.Interceptor) Option {
	return func(o *options) {
		none := func(f tandem.Interceptor) bool { return f == nil }
		if o.want(!slices.ContainsFunc(i, none), "WithInterceptors", nil, "functions") {
			o.interceptors = append(o.interceptors, i...)
		}
	}
}

// WithTimeout bounds how long a call may run, whatever its deadline; none by default, which 0
// also means. [MethodTimeout] takes precedence over it.
func WithTimeout(d time.Duration) Option {
	return func(o *options) {
		o.want(d >= 0, "WithTimeout", d, "0 or more")
		o.timeout = d
	}
}

// WithMaxConcurrency limits the whole server to that many running calls, and that many waiting
// ones in its queue. Calls that wait for [MethodConcurrency] count as running. Further calls
// are refused with ResourceExhausted, have not executed, and have a RetryAfter: when those
// before them should be done, one second at most. By default there is no limit but that of each
// connection.
func WithMaxConcurrency(calls, queue int) Option {
	return func(o *options) {
		o.want(calls >= 1 && queue >= 0, "WithMaxConcurrency", [2]int{calls, queue}, "one call at least, and a queue of 0 or more")
		o.limiter = newLimiter(max(1, calls), max(0, queue), "the server")
	}
}

// WithoutOverloadControl makes the server run every call that no other limit refuses. By
// default an overloaded server refuses calls that could not end in time, as not executed and
// with ResourceExhausted, so that it works on those whose callers still wait.
func WithoutOverloadControl() Option {
	return func(o *options) {
		o.given.Add("WithOverloadControl")
		o.guarded = false
	}
}

// WithOverloadControl changes the constants of overload control, see docs/explanation/overload.md. It is
// rarely needed: by default the server finds its limits by itself.
func WithOverloadControl(c OverloadConfig) Option {
	return func(o *options) {
		o.given.Add("WithOverloadControl")
		constants := overload.Config(c)
		if err := constants.Check(); err != nil {
			o.wrong = append(o.wrong, fmt.Errorf("WithOverloadControl: %w", err))
		}
		o.guarded, o.overload = true, constants
	}
}

// WithTrustedCriticality decides which callers may send calls above Normal, see
// [tandem.Criticality]; calls of others are served as Normal. By default these are the callers
// with a verified client certificate (ClientAuth of [WithTLS]).
func WithTrustedCriticality(trusted func(*tandem.Peer) bool) Option {
	return func(o *options) {
		if o.want(trusted != nil, "WithTrustedCriticality", nil, "a function") {
			o.trusts = trusted
		}
	}
}

// WithMaxMessage sets the largest message in bytes, before and after
// decompression; 4 MiB by default.
func WithMaxMessage(n int) Option {
	return func(o *options) {
		o.want(n >= 1, "WithMaxMessage", n, "one byte at least")
		o.maxMessage = max(1, n)
	}
}

// WithMemory sets how many bytes the requests of all connections and protocols may hold
// together while they arrive, are decompressed, decoded, and handled. The default is 128 MiB,
// or half of GOMEMLIMIT if that is less; with garbage that is not collected yet the process
// takes up to four times as much. A single connection gets at most half of it; several share
// it. A request that finds no room waits until its deadline; one without a deadline waits until
// no other was served for the stall timeout. Then it is refused as not executed, with
// ResourceExhausted. Requests of at most 4 KiB, and of at most 32 KiB when they are decoded,
// are not counted; responses have limits of their own.
func WithMemory(bytes int64) Option {
	return func(o *options) {
		o.want(bytes >= 1, "WithMemory", bytes, "one byte at least")
		o.memory = max(1, bytes)
	}
}

// WithMaxDecoded sets how many bytes one message may take when it is decoded, as its codec
// estimates beforehand: the number of its elements times the size of their Go types. 64 MiB by
// default. A message that would take more is refused with ResourceExhausted.
func WithMaxDecoded(bytes int64) Option {
	return func(o *options) {
		o.want(bytes >= 1, "WithMaxDecoded", bytes, "one byte at least")
		o.maxDecoded = max(1, bytes)
	}
}

const (
	mostMemory        = 128 << 20
	defaultMaxDecoded = 64 << 20
)

// defaultMemory leaves half of the process's limit, if it has one, to everything else.
func defaultMemory() int64 { return min(mostMemory, debug.SetMemoryLimit(-1)/2) }

// WithStreamWindow sets how many bytes of a stream's messages the peer may send before they are
// received here; 1 MiB by default, 16 KiB at least and 64 MiB at most. All streams of a
// connection together may have 16 times as many. A stream carries at most one window in each
// round trip.
func WithStreamWindow(n int) Option {
	return func(o *options) {
		o.want(n >= wire.MinWindow && n <= session.MaxStreamWindow, "WithStreamWindow", n, "16 KiB to 64 MiB")
		o.streamWindow = min(max(wire.MinWindow, n), session.MaxStreamWindow)
	}
}

// WithMaxOpenCalls sets how many calls a connection may have open; 4,096 by default, 65,536 at
// most. Clients queue further calls.
func WithMaxOpenCalls(n int) Option {
	return func(o *options) {
		o.want(n >= 1 && n <= wire.MaxOpenLimit, "WithMaxOpenCalls", n, "1 to 65,536")
		o.maxOpen = min(max(1, n), wire.MaxOpenLimit)
	}
}

// WithMaxConnections sets how many connections are served at a time; no limit
// by default, which 0 also means. Further ones are closed at once.
func WithMaxConnections(n int) Option {
	return func(o *options) {
		o.want(n >= 0, "WithMaxConnections", n, "0 or more")
		o.maxConns = n
	}
}

// WithHandshakeTimeout sets how long a new connection may take until its first bytes have shown
// its protocol, TLS handshake included; 3 s by default.
func WithHandshakeTimeout(d time.Duration) Option {
	return func(o *options) {
		o.want(d >= 0, "WithHandshakeTimeout", d, "0, for the default, or more")
		o.handshake = cmp.Or(d, defaultHandshake)
	}
}

// WithProxies names the networks of proxies and load balancers, whose connections belong to
// many clients. When more than 1,024 connections are in their handshake, the server closes the
// oldest one of the IPv4 address, or IPv6 /64, that holds most of them; each connection from a
// proxy's network counts as a network of its own. None by default.
func WithProxies(networks ...netip.Prefix) Option {
	return func(o *options) {
		for _, n := range networks {
			o.want(n.IsValid(), "WithProxies", n, "a network")
		}
		o.proxies = append(o.proxies, networks...)
	}
}

// WithStallTimeout sets how long the rest of a frame may take to arrive, and how long a peer
// may read no byte of what is written to it; 10 s by default. After that its connection is
// closed.
func WithStallTimeout(d time.Duration) Option {
	return func(o *options) {
		o.want(d >= 0, "WithStallTimeout", d, "0, for the default, or more")
		o.stall = cmp.Or(d, defaultStall)
	}
}

// WithSilence sets how long a client may be silent while calls are running in either direction;
// 20 s by default, which 0 also means; less than 2 s is an error. If what the server writes is
// not acknowledged for that long, the connection is closed and its calls' contexts end. If it
// is, but the client answers no ping, its process hangs: then the connection is closed once
// none of its calls has a deadline to wait for.
func WithSilence(d time.Duration) Option {
	return func(o *options) {
		o.want(d == 0 || d >= leastSilence, "WithSilence", d, "0, for the default, or 2s and more")
		o.silence = max(leastSilence, cmp.Or(d, session.DefaultSilence))
	}
}

// WithLogger sets the log. By default, which nil also means, only panics of
// methods are logged, to slog's default logger.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) {
		o.given.Add("WithLogger")
		o.logger = l
	}
}

// WithRegistrar lists the server in a registry while it serves; given more than once, in each.
// The server fills in what the instance leaves out: its endpoint from the listener, its ID from
// the endpoint, its start time and incarnation. Its services are those it names and all that
// are registered, before Serve or later.
//
// A listener on all interfaces is listed under the host's name. A WebSocket handler that is
// mounted on an HTTP server does not know its address, and is listed only if the instance names
// its Endpoints.
//
// A registry that can't be reached does not keep the server from serving: the server tries
// again until the instance is listed. But Serve fails if another server is listed under the
// same ID and the registry reports that ([registry.ErrTaken]).
func WithRegistrar(r registry.Registrar, in tandem.Instance) Option {
	return func(o *options) {
		if o.want(r != nil, "WithRegistrar", r, "a registrar") {
			o.memberships = append(o.memberships, membership{r, in})
		}
	}
}

// WithLoadReport sets how often the server reports its load to its registries, as
// [tandem.Instance]'s Load: one minute by default, never if it is not positive. Each report is
// written to the registry and read by all clients.
func WithLoadReport(every time.Duration) Option {
	return func(o *options) {
		o.given.Add("WithLoadReport")
		o.reportEvery = every
	}
}
