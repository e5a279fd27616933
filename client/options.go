package client

import (
	"cmp"
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
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/file"
	"github.com/tandem-rpc/tandem/resilience"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

// Option changes a [Client].
type Option func(*options)

type options struct {
	callDefaults
	wrong               []error  // values that options can't have
	needMode            []string // options that act in some fail modes only
	modeGiven           bool
	needCompressor      bool // by WithCompressAbove
	compressorsGiven    bool
	codecs              []tandem.Codec
	compressors         []tandem.Compressor
	compressAbove       int
	transports          map[string]tandem.Transport
	secured             bool        // every connection has TLS
	tls                 *tls.Config // if it has; nil for the defaults
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
	ejection            *Ejection                 // nil for none
	breaker             *resilience.BreakerConfig // nil for none
	fixed               *policy.Policy            // nil for none
	source              policy.Source             // nil for none
	name                string                    // "": one is made
	id                  string                    // "": servers do not learn of one
	logger              *slog.Logger              // nil: quiet, save for panics of methods
	register            []func(*dispatch.Table) error
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
			"static": registry.Static(), "dns": registry.DNS(), "file": file.Resolver(),
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
		maxMessage:      wire.DefaultMaxMessage,
		streamWindow:    session.DefaultStreamWindow,
	}
})

// WithCodec adds a codec and makes it the default of calls that name none. Without it the
// default is gob, or the codec of [WithProtocols]. Messages of Protocol Buffers, which gob and
// MessagePack do not encode completely, use the codec "protobuf" if the client has it.
func WithCodec(c tandem.Codec) Option {
	return func(o *options) {
		if o.want(c != nil, "WithCodec", c, "a codec") {
			o.codecs = replace(o.codecs, c, tandem.Codec.Name)
			o.codec = c.Name()
		}
	}
}

// WithCodecs adds codecs that calls may name, to gob, JSON, raw and generated.
func WithCodecs(codecs ...tandem.Codec) Option {
	return func(o *options) {
		for _, c := range codecs {
			if o.want(c != nil, "WithCodecs", c, "a codec") {
				o.codecs = replace(o.codecs, c, tandem.Codec.Name)
			}
		}
	}
}

// WithCompressor adds a compressor and makes it the default of all calls. Messages below 1 KiB
// are not compressed.
func WithCompressor(c tandem.Compressor) Option {
	return func(o *options) {
		if o.want(c != nil, "WithCompressor", c, "a compressor") {
			o.compressors = replace(o.compressors, c, tandem.Compressor.Name)
			o.compressor, o.compressorsGiven = c.Name(), true
		}
	}
}

// WithCompressors adds compressors that calls may name, to gzip and deflate.
func WithCompressors(compressors ...tandem.Compressor) Option {
	return func(o *options) {
		for _, c := range compressors {
			if o.want(c != nil, "WithCompressors", c, "a compressor") {
				o.compressors = replace(o.compressors, c, tandem.Compressor.Name)
				o.compressorsGiven = true
			}
		}
	}
}

// WithCompressAbove sets the size in bytes from which messages of calls with a
// compressor are compressed; 1 KiB by default. It needs [WithCompressor], or
// [WithCompressors] for calls that name one.
func WithCompressAbove(n int) Option {
	return func(o *options) {
		o.want(n >= 0, "WithCompressAbove", n, "0 bytes at least")
		o.compressAbove, o.needCompressor = n, true
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
	return func(o *options) { o.tls, o.secured = config, true }
}

// WithResolver adds a resolver for targets of a scheme, or replaces it. If it is a
// [registry.Checker], Dial asks it whether the target can work.
func WithResolver(scheme string, r registry.Resolver) Option {
	return func(o *options) {
		o.want(scheme != "" && r != nil, "WithResolver", scheme, "a scheme and a resolver")
		o.resolvers = with(o.resolvers, scheme, r)
	}
}

// WithSnapshots keeps the last list of instances in a file in dir, so that a client that starts
// while its registry is down knows its servers. Several clients and processes may share the
// directory. A process that can write there can tell a client where to call.
func WithSnapshots(dir string) Option { return func(o *options) { o.snapshots = dir } }

// WithBalancer sets the policy that chooses an instance; [balance.P2C] by default. Unless it
// contains a [balance.Route], one is put in front of it, so that calls keep to their routes and
// reserved instances get no other calls.
func WithBalancer(p balance.Policy) Option {
	return func(o *options) {
		if o.want(p != nil, "WithBalancer", p, "a policy") {
			o.policy = p
		}
	}
}

// WithEjection sets when an instance that fails or is slow gets no calls; nil means never. The
// zero Ejection is the default. It has no effect on a client with one instance.
func WithEjection(e *Ejection) Option { return func(o *options) { o.ejection = e } }

// WithBreaker gives every method of every instance a circuit breaker, which counts every call.
// A call goes to an instance where its method's breaker lets it through; if there is none it
// fails at once, with Unavailable and NotExecuted. By default methods have no breakers.
func WithBreaker(config resilience.BreakerConfig) Option {
	return func(o *options) { o.breaker = &config }
}

// WithRoute sets the route of calls that name none with [Route].
func WithRoute(r tandem.Route) Option { return func(o *options) { o.route = &r } }

// WithHashKey sets the function that makes the hash key of a call from its arguments, for
// policies that choose by key; a call with a [HashKey] keeps that one. For streams args is nil.
// The function must be safe for concurrent use.
func WithHashKey(key func(method string, args any) string) Option {
	return func(o *options) { o.hashKey = key }
}

// WithFailMode sets what happens when an attempt fails; [Failfast] by default. Dial requires
// it, or a policy, with an option that acts in some modes only, such as [WithRetries]: give
// Failfast if only calls with a [FailMode] of their own are to be retried.
func WithFailMode(m tandem.FailMode) Option {
	return func(o *options) {
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
		o.needMode = append(o.needMode, "WithRetries")
	}
}

// WithRetryBudget bounds all retries of the client, the second attempts of
// [Backup] and the later ones of [Failback] among them: share of the calls that
// succeed (0.1 is 10 %) plus perSecond. The default is 0.1 and 10.
func WithRetryBudget(share float64, perSecond int) Option {
	return func(o *options) {
		o.want(share >= 0 && perSecond >= 0, "WithRetryBudget", [2]any{share, perSecond}, "a share and a rate of 0 or more")
		o.budgetShare, o.budgetRate = share, perSecond
	}
}

// WithAttemptTimeout bounds each attempt; by default only the call's deadline does. An attempt
// that takes longer fails with DeadlineExceeded, and its handler's context ends. Fail modes
// that retry then retry a call that is [Idempotent] or was not sent. Streams have no such
// bound.
func WithAttemptTimeout(d time.Duration) Option {
	return func(o *options) {
		o.want(d >= 0, "WithAttemptTimeout", d, "0, for none, or more")
		o.attemptTimeout = d
	}
}

// WithFailback sets how many calls may wait for [Failback] to try them again, how many further
// attempts each gets, and the pause before the first. Each further pause is twice as long, up
// to five minutes; all vary at random by up to a half. The default is 100, 3 and 5 s.
func WithFailback(queue, tries int, pause time.Duration) Option {
	return func(o *options) {
		o.want(queue >= 0 && tries >= 0 && pause >= 0, "WithFailback", [3]any{queue, tries, pause}, "0 or more of each")
		o.failbackQueue, o.failbackTries, o.failbackPause = max(0, queue), max(0, tries), max(pause, time.Millisecond)
		o.needMode = append(o.needMode, "WithFailback")
	}
}

// WithFailbackGiveUp sets a function that is called for each call that [Failback] gave up: its
// last attempt failed, the queue was full (then the caller gets the error, too), or the client
// was closed. f must be safe for concurrent use; Close waits for it. The call's arguments are
// gone: put what f needs of them into the call's Metadata.
func WithFailbackGiveUp(f func(call *tandem.Call, err error)) Option {
	return func(o *options) { o.giveUp, o.needMode = f, append(o.needMode, "WithFailbackGiveUp") }
}

// WithBroadcast sets which share of the instances must succeed for a call with [Broadcast] to
// succeed, at least one, and how many are called at a time. The default is 1, which is all, and
// 64.
func WithBroadcast(share float64, atOnce int) Option {
	return func(o *options) {
		o.want(share >= 0 && share <= 1 && atOnce >= 1, "WithBroadcast", [2]any{share, atOnce}, "a share of 0 to 1, and one at a time at least")
		o.broadcastShare, o.broadcastAtOnce = min(max(0, share), 1), max(1, atOnce)
		o.needMode = append(o.needMode, "WithBroadcast")
	}
}

// WithFork sets at how many instances a call with [Fork] is made; 2 by default.
func WithFork(n int) Option {
	return func(o *options) {
		o.want(n >= 1, "WithFork", n, "one instance at least")
		o.forks = max(1, n)
		o.needMode = append(o.needMode, "WithFork")
	}
}

// WithBackup bounds the second attempts that [Backup] makes of slow calls to a share of the
// calls: 0.05, the default, is 5 %; 0 means none. They use the retry budget, too.
func WithBackup(share float64) Option {
	return func(o *options) {
		o.want(share >= 0 && share <= 1, "WithBackup", share, "a share of 0 to 1")
		o.backupShare = min(max(0, share), 1)
		o.needMode = append(o.needMode, "WithBackup")
	}
}

// WithInterceptors adds interceptors of the call chain, which runs once a
// call, outside the fail mode. The first is the outermost.
func WithInterceptors(i ...tandem.Interceptor) Option {
	return func(o *options) {
		o.want(!slices.ContainsFunc(i, noInterceptor), "WithInterceptors", nil, "functions")
		o.interceptors = append(o.interceptors, i...)
	}
}

// WithAttemptInterceptors adds interceptors of the attempt chain, which runs
// for every attempt, inside the fail mode.
func WithAttemptInterceptors(i ...tandem.Interceptor) Option {
	return func(o *options) {
		o.want(!slices.ContainsFunc(i, noInterceptor), "WithAttemptInterceptors", nil, "functions")
		o.attemptInterceptors = append(o.attemptInterceptors, i...)
	}
}

func noInterceptor(i tandem.Interceptor) bool { return i == nil }

// WithTimeout sets the deadline of calls that have none; 5 s by default, 0 for
// none.
func WithTimeout(d time.Duration) Option {
	return func(o *options) {
		o.want(d >= 0, "WithTimeout", d, "0, for none, or more")
		o.timeout = d
	}
}

// WithConnectTimeout sets how long connecting and the handshake may take, which are two
// round trips; 10 s by default.
func WithConnectTimeout(d time.Duration) Option {
	return func(o *options) {
		o.want(d > 0, "WithConnectTimeout", d, "more than 0")
		o.connectTimeout = d
	}
}

// WithConnections sets how many connections are held to each instance, 64 at most; 1 by
// default, which is best unless TLS or a saturated core says otherwise.
func WithConnections(n int) Option {
	return func(o *options) {
		o.want(n >= 1 && n <= maxConnections, "WithConnections", n, "1 to 64")
		o.connections = min(max(1, n), maxConnections)
	}
}

const maxConnections = 64

// WithBackoff sets the pause before the first reconnect and the longest one;
// between them it doubles. The actual pause is random between zero and that
// ("full jitter"). The default is 100 ms and 3 s.
func WithBackoff(first, most time.Duration) Option {
	return func(o *options) {
		o.want(first >= 0 && most >= first, "WithBackoff", [2]time.Duration{first, most}, "a first pause of 0 or more, and the longest no shorter")
		o.backoff = resilience.Backoff{First: max(first, time.Millisecond), Most: max(first, most)}
	}
}

// WithSilence sets how long a server may be silent while calls are outstanding before it is
// given up: 20 s by default, which 0 also means; less than 2 s is an error. If what the client
// writes is not acknowledged for so long, the connection is closed. If it is, but the server
// answers no ping, its process hangs: then calls fail with Unavailable, except those with a
// deadline of their own, which wait until then. A deadline from [WithTimeout] is not their own.
//
// A silent server is a suspect much earlier, after a second or four round trips. Calls then go
// to other instances if there are any; calls that wait for the suspect are made elsewhere if
// they are [Idempotent], under [Failover] or [Backup], and the retry budget allows it. Over the
// protocols of [WithProtocols] the client knows only what [WithHealthCheck] finds: a connection
// that has been silent for so long is replaced, and its calls wait until their own deadlines.
func WithSilence(d time.Duration) Option {
	return func(o *options) {
		o.want(d == 0 || d >= leastSilence, "WithSilence", d, "0, for the default, or 2s and more")
		o.silence = max(leastSilence, cmp.Or(d, session.DefaultSilence))
	}
}

// WithHealthCheck sets how long a connection may be silent before the server is pinged: a
// random time between half of the interval and all of it. The default is 10 s, the minimum 100
// ms, and 0 means never. A server that was stopped, or whose machine failed, is so found before
// a call is sent to it, at most 1.125 intervals and 1.4 s later. It is then a suspect, which
// gets a call only if no other instance can take it, until it answers or the client has
// connected again; the client reconnects when it was silent for as long as [WithSilence] says.
// Connections with calls outstanding are watched more closely in any case.
func WithHealthCheck(interval time.Duration) Option {
	return func(o *options) {
		o.want(interval >= 0, "WithHealthCheck", interval, "0, for never, or more")
		if o.healthCheck = max(0, interval); interval > 0 {
			o.healthCheck = max(interval, leastHealthCheck)
		}
	}
}

// WithMaxMessage sets the largest message accepted, in bytes, before and after
// decompression; 4 MiB by default.
func WithMaxMessage(n int) Option {
	return func(o *options) {
		o.want(n >= 1, "WithMaxMessage", n, "one byte at least")
		o.maxMessage = max(1, n)
	}
}

// WithStreamWindow sets how many bytes of a stream's messages the peer may send before they are
// received here; 1 MiB by default, from 16 KiB to 64 MiB. All streams of a connection together
// may have 16 times as many. A stream carries at most one window per round trip. It is an error
// if the protocol of the target carries no streams.
func WithStreamWindow(n int) Option {
	return func(o *options) {
		o.want(n >= wire.MinWindow && n <= session.MaxStreamWindow, "WithStreamWindow", n, "16 KiB to 64 MiB")
		o.windowGiven = true
		o.streamWindow = min(max(wire.MinWindow, n), session.MaxStreamWindow)
	}
}

// WithLogger sets the logger. By default, which nil also means, only panics of methods that
// servers call on this client are logged, to slog's default logger.
func WithLogger(l *slog.Logger) Option { return func(o *options) { o.logger = l } }

// WithService lets servers call the methods of rcvr on this client, through
// their connections to it. See the server's Peer. Dial fails for exported methods
// that can't be served, unless [SkipUnsuitable] leaves them out.
func WithService(name string, rcvr any, opts ...ServiceOption) Option {
	return func(o *options) {
		o.register = append(o.register, func(t *dispatch.Table) error { return t.RegisterName(name, rcvr, opts...) })
	}
}

// WithFunc lets servers call a typed function on this client.
func WithFunc[Args, Reply any](name string, f func(context.Context, *Args) (*Reply, error)) Option {
	return func(o *options) {
		o.register = append(o.register, func(t *dispatch.Table) error { return t.Add(dispatch.UnaryMethod(name, f)) })
	}
}

// base returns the rules that the options make; a policy may override them.
func (o *options) base() *rules.Base {
	return &rules.Base{
		Balancer: o.policy, FailMode: o.failMode, Timeout: o.timeout, AttemptTimeout: o.attemptTimeout, Retries: o.retries,
		BudgetShare: o.budgetShare, BudgetRate: o.budgetRate, Ejection: (*rules.Ejection)(o.ejection), Breaker: o.breaker,
	}
}

// The least values of WithSilence and WithHealthCheck.
const (
	leastSilence     = 2 * time.Second
	leastHealthCheck = 100 * time.Millisecond
)
