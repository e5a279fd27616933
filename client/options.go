package client

import (
	"context"
	"crypto/tls"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/failmode"
	"github.com/tandem-rpc/tandem/internal/rules"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/internal/settings"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/dns"
	"github.com/tandem-rpc/tandem/registry/file"
	"github.com/tandem-rpc/tandem/resilience"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

// Option changes a [Client].
type Option func(*options)

type options struct {
	callDefaults
	wrong               []error        // values that options can't have
	given               settings.Given // the options, and fields of options, that were given
	needMode            []string       // options that act in some fail modes only
	modeGiven           bool
	needCompressor      bool // a Compression without compressors was given
	compressorsGiven    bool
	codecs              []tandem.Codec
	compressors         []tandem.Compressor
	compressAbove       int
	transports          map[string]tandem.Transport
	secured             bool                        // every connection has TLS
	tls                 *tls.Config                 // the configuration if secured; nil for the defaults
	tlsFrom             func() (*tls.Config, error) // instead of tls: the configuration of the next connection
	protocols           []Protocol
	byProtocol          map[string]Protocol
	resolvers           map[string]registry.Resolver
	policy              balance.Policy
	failMode            tandem.FailMode
	retries             int
	budgetShare         float64
	throttle            *Throttle // nil for none
	budgetRate          int
	attemptTimeout      time.Duration
	failbackQueue       int
	failbackTries       int
	failbackPause       time.Duration
	giveUp              func(*tandem.Call, error)
	broadcastShare      float64
	broadcastAtOnce     int
	forks               int
	backupShare         float64
	interceptors        []tandem.Interceptor
	plugins             []any
	attemptInterceptors []tandem.Interceptor
	timeout             time.Duration
	connectTimeout      time.Duration
	wait                time.Duration // 0 for none
	connections         int
	backoff             resilience.Backoff
	healthCheck         time.Duration // 0 for none
	silence             time.Duration
	maxMessage          int
	streamWindow        int
	windowGiven         bool
	snapshots           string
	baggage             Baggage
	ejection            *Ejection                 // nil for none
	breaker             *resilience.BreakerConfig // nil for none
	self                rules.Self                // what routes match of the client
	fixed               *policy.Policy            // nil for none
	source              policy.Source             // nil for none
	name                string                    // name of the client, for policy.Reporter; "": one is made
	id                  string                    // ID that the client announces; "" for none
	logger              *slog.Logger              // nil: quiet, save for panics of methods
	register            []func(*dispatch.Table) error
	services, funcs     []string // names of what register registers
	servingPlugins      []any
}

// callDefaults are the values that each call begins with.
type callDefaults struct {
	codec      string // "" until Dial, unless it was chosen
	compressor string
	route      *tandem.Route
	hashKey    func(method string, args any) string
}

// builtin returns the default options. All clients share its lists and maps, so an option
// replaces a list or a map and does not change it.
var builtin = sync.OnceValue(func() options { //nolint:gochecknoglobals // never changed
	return options{
		codecs:        []tandem.Codec{codec.Gob(), codec.JSON(), codec.Raw(), codec.Generated()},
		compressors:   []tandem.Compressor{compress.Gzip(), compress.Deflate()},
		compressAbove: 1 << 10,
		transports:    map[string]tandem.Transport{"tcp": transport.TCP(), "unix": transport.Unix()},
		resolvers: map[string]registry.Resolver{
			"tcp": registry.Single("tcp"), "unix": registry.Single("unix"),
			"static": registry.Static(), "dns": dns.Resolver(), "file": file.Resolver(),
		},
		policy:          balance.Route(balance.P2C()),
		ejection:        new(Ejection),
		failMode:        tandem.Failfast,
		retries:         2,
		budgetShare:     0.1,
		throttle:        new(Throttle).fill(),
		budgetRate:      10,
		failbackQueue:   100,
		failbackTries:   3,
		failbackPause:   5 * time.Second,
		broadcastShare:  1,
		broadcastAtOnce: 64,
		forks:           2,
		backupShare:     0.05,
		timeout:         defaultTimeout,
		connectTimeout:  defaultConnectTimeout,
		wait:            defaultWait,
		connections:     1,
		backoff:         resilience.Backoff{First: 100 * time.Millisecond, Most: 3 * time.Second},
		healthCheck:     10 * time.Second,
		silence:         session.DefaultSilence,
		baggage:         Baggage{Lanes: defaultLanes()},
		maxMessage:      wire.DefaultMaxMessage,
		streamWindow:    session.DefaultStreamWindow,
	}
})

// WithCodec adds codecs. The first becomes the default of calls that name none; nil leaves that as
// it is: gob, or the codec of [WithProtocols]. Calls may name the others, beside gob, JSON, raw
// and generated. Messages of Protocol Buffers, which gob and MessagePack do not encode completely,
// use the codec "protobuf" if the client has it.
func WithCodec(usual tandem.Codec, others ...tandem.Codec) Option {
	return func(o *options) {
		o.given.Add("WithCodec")
		o.want(usual != nil || len(others) > 0, "WithCodec", usual, "a codec")
		for _, c := range others {
			if o.want(c != nil, "WithCodec", c, "a codec") {
				o.codecs = replace(o.codecs, c, tandem.Codec.Name)
			}
		}
		if usual != nil {
			o.codecs = replace(o.codecs, usual, tandem.Codec.Name)
			o.codec = usual.Name()
		}
	}
}

// Compression says which messages a client compresses, for [WithCompression].
type Compression struct {
	// Usual is the compressor of all calls that name none. By default they are not compressed.
	Usual tandem.Compressor
	// Others are compressors that calls may name, beside gzip and deflate.
	Others []tandem.Compressor
	// Above is the size in bytes from which messages are compressed; 1 KiB by default.
	Above int
}

// WithCompression adds compressors, and says which messages are compressed.
func WithCompression(c Compression) Option {
	return func(o *options) {
		for _, other := range c.Others {
			if o.want(other != nil, "WithCompression: Others", other, "compressors") {
				o.compressors = replace(o.compressors, other, tandem.Compressor.Name)
			}
		}
		if len(c.Others) > 0 {
			o.given.Add("WithCompression: Others")
		}
		if c.Usual != nil {
			o.given.Add("WithCompression: Usual")
			o.compressors = replace(o.compressors, c.Usual, tandem.Compressor.Name)
			o.compressor = c.Usual.Name()
		}
		o.want(c.Above >= 0, "WithCompression: Above", c.Above, "0, for the default, or more bytes")
		if c.Above != 0 {
			o.given.Add("WithCompression: Above")
			o.compressAbove = c.Above
		}
		if c.Usual != nil || len(c.Others) > 0 {
			o.compressorsGiven = true
		} else {
			o.needCompressor = true
		}
	}
}

// replace returns a copy of the list with v in place of the element with its name, or at the
// end.
func replace[T any](list []T, v T, name func(T) string) []T {
	list = slices.Clone(list)
	for i := range list {
		if name(list[i]) == name(v) {
			list[i] = v
			return list
		}
	}
	return append(list, v)
}

// with returns a copy of the map with the value v for a name.
func with[T any](m map[string]T, name string, v T) map[string]T {
	m = maps.Clone(m)
	m[name] = v
	return m
}

// WithTransport adds a transport for endpoints of that name, or replaces it,
// and makes name://address a target. [WithTLS] applies to it too.
func WithTransport(name string, t tandem.Transport) Option {
	return func(o *options) {
		o.given.Add("WithTransport")
		o.want(name != "" && t != nil, "WithTransport", name, "a name and a transport")
		o.transports = with(o.transports, name, t)
		if o.resolvers[name] == nil {
			o.resolvers = with[registry.Resolver](o.resolvers, name, registry.Single(name))
		}
	}
}

// WithTLS puts TLS on every connection to a server, whatever its transport and protocol.
// Servers are verified: by the host of their address unless the config has a ServerName, which
// unix sockets need. A nil config trusts the system's certificate authorities.
//
// Dial fails for a config that can't work, and if a transport has TLS already, such as QUIC, or
// can't have it. For TLS on some transports only, wrap those with [transport.TLS] and leave out
// WithTLS.
func WithTLS(config *tls.Config) Option {
	return func(o *options) {
		o.given.Add("WithTLS")
		o.tls, o.tlsFrom, o.secured = config, nil, true
	}
}

// WithTLSFrom is [WithTLS] with a configuration that may change: source is called by Dial, and
// for each connection, so that new certificates and authorities count without a new client.
// What it returns must not be changed. An error fails the connection, which is tried again later. Of WithTLS
// and WithTLSFrom the last one counts. Package transport/tlsfiles has a source that follows files.
func WithTLSFrom(source func() (*tls.Config, error)) Option {
	return func(o *options) {
		o.given.Add("WithTLSFrom")
		if o.want(source != nil, "WithTLSFrom", nil, "a function") {
			o.tls, o.tlsFrom, o.secured = nil, source, true
		}
	}
}

// WithResolver adds a resolver for targets of a scheme, or replaces it. If it is a
// [registry.Checker], Dial asks it whether the target can work.
func WithResolver(scheme string, r registry.Resolver) Option {
	return func(o *options) {
		o.given.Add("WithResolver")
		o.want(scheme != "" && r != nil, "WithResolver", scheme, "a scheme and a resolver")
		o.resolvers = with(o.resolvers, scheme, r)
	}
}

// WithSnapshots keeps the last list of instances in a file in dir, so that a client that starts
// while its registry is down knows its servers. Several clients and processes may share the
// directory. A process that can write there can tell a client where to call.
func WithSnapshots(dir string) Option {
	return func(o *options) {
		o.given.Add("WithSnapshots")
		o.snapshots = dir
	}
}

// WithBalancer sets the policy that chooses an instance; [balance.P2C] by default. Unless it
// contains a [balance.Route], one is put in front of it, so that calls keep to their routes and
// reserved instances get no other calls.
func WithBalancer(p balance.Policy) Option {
	return func(o *options) {
		o.given.Add("WithBalancer")
		if o.want(p != nil, "WithBalancer", p, "a policy") {
			o.policy = p
		}
	}
}

// WithEjection sets when an instance that fails or is slow gets no calls; nil means never. The
// zero Ejection is the default. It has no effect on a client with one instance.
func WithEjection(e *Ejection) Option {
	return func(o *options) {
		o.given.Add("WithEjection")
		o.ejection = e
	}
}

// WithBreaker gives every method of every instance a circuit breaker, which counts every call.
// A call goes to an instance where its method's breaker lets it through; if there is none it
// fails at once, with Unavailable and NotExecuted. By default methods have no breakers.
func WithBreaker(config resilience.BreakerConfig) Option {
	return func(o *options) {
		o.given.Add("WithBreaker")
		o.breaker = &config
	}
}

// WithRoute sets the route of calls that name none with [Route].
func WithRoute(r tandem.Route) Option {
	return func(o *options) {
		o.given.Add("WithRoute")
		o.route = &r
	}
}

// WithHashKey sets the function that makes the hash key of a call from its arguments, for
// policies that choose by key; a call with a [HashKey] keeps that one. For streams args is nil.
// The function must be safe for concurrent use.
func WithHashKey(key func(method string, args any) string) Option {
	return func(o *options) {
		o.given.Add("WithHashKey")
		o.hashKey = key
	}
}

// WithFailMode sets what happens when an attempt fails; [Failfast] by default. Dial requires
// it, or a policy, with an option that acts in some modes only, such as [WithRetries]: give
// Failfast if only calls with a [FailMode] of their own are to be retried.
func WithFailMode(m tandem.FailMode) Option {
	return func(o *options) {
		o.given.Add("WithFailMode")
		if o.want(m < failmode.Count, "WithFailMode", uint8(m), "one of the fail modes") {
			o.failMode, o.modeGiven = m, true
		}
	}
}

// WithRetries sets how many further attempts [Failover], [Failtry] and [Backup] make; 2 by
// default.
func WithRetries(n int) Option {
	return func(o *options) {
		o.want(n >= 0, "WithRetries", n, "0 or more")
		o.retries = max(0, n)
		o.needModeFor("WithRetries")
	}
}

// WithInterceptors adds interceptors of the call chain, which runs once a
// call, outside the fail mode. The first is the outermost.
func WithInterceptors(i ...tandem.Interceptor) Option {
	return func(o *options) {
		o.given.Add("WithInterceptors")
		o.want(!slices.ContainsFunc(i, noInterceptor), "WithInterceptors", nil, "functions")
		o.interceptors = append(o.interceptors, i...)
	}
}

// WithAttemptInterceptors adds interceptors of the attempt chain, which runs
// for every attempt, inside the fail mode.
func WithAttemptInterceptors(i ...tandem.Interceptor) Option {
	return func(o *options) {
		o.given.Add("WithAttemptInterceptors")
		o.want(!slices.ContainsFunc(i, noInterceptor), "WithAttemptInterceptors", nil, "functions")
		o.attemptInterceptors = append(o.attemptInterceptors, i...)
	}
}

func noInterceptor(i tandem.Interceptor) bool { return i == nil }

// WithTimeout sets the deadline of calls that have none; 5 s by default, 0 for
// none.
func WithTimeout(d time.Duration) Option {
	return func(o *options) {
		o.given.Add("WithTimeout")
		o.want(d >= 0, "WithTimeout", d, "0, for none, or more")
		o.timeout = d
	}
}

// WithMaxMessage sets the largest message accepted, in bytes, before and after
// decompression; 4 MiB by default.
func WithMaxMessage(n int) Option {
	return func(o *options) {
		o.given.Add("WithMaxMessage")
		o.want(n >= 1, "WithMaxMessage", n, "one byte at least")
		o.maxMessage = max(1, n)
	}
}

// WithLogger sets the logger. By default, which nil also means, only panics of methods that
// servers call on this client are logged, to slog's default logger.
func WithLogger(l *slog.Logger) Option {
	return func(o *options) {
		o.given.Add("WithLogger")
		o.logger = l
	}
}

// WithService lets servers call the methods of rcvr on this client, through
// their connections to it. See the server's Peer. Dial fails for exported methods
// that can't be served, unless [SkipUnsuitable] leaves them out.
func WithService(name string, rcvr any, opts ...ServiceOption) Option {
	return func(o *options) {
		o.given.Add("WithService")
		o.services = append(o.services, name)
		o.register = append(o.register, func(t *dispatch.Table) error { return t.RegisterName(name, rcvr, opts...) })
	}
}

// WithFunc lets servers call a typed function on this client.
func WithFunc[Args, Reply any](name string, f func(context.Context, *Args) (*Reply, error)) Option {
	return func(o *options) {
		o.given.Add("WithFunc")
		o.funcs = append(o.funcs, name)
		o.register = append(o.register, func(t *dispatch.Table) error { return t.Add(dispatch.UnaryMethod(name, f)) })
	}
}

// base returns the rules that the options make; a policy may override them.
func (o *options) base() *rules.Base {
	return &rules.Base{
		Self: o.self, Balancer: o.policy, FailMode: o.failMode, Timeout: o.timeout, AttemptTimeout: o.attemptTimeout, Retries: o.retries,
		BudgetShare: o.budgetShare, BudgetRate: o.budgetRate, Ejection: (*rules.Ejection)(o.ejection), Breaker: o.breaker,
	}
}
