// Package client (stable) makes calls.
//
//	c, err := client.Dial("tcp://127.0.0.1:8972")   // or static://a,b  file:///dir  dns://…
//	err = c.Call(ctx, "Arith.Mul", &Args{7, 8}, &reply)
//	reply, err := client.Invoke[Reply](ctx, c, "Arith.Mul", &Args{7, 8})
//	mul := client.Method[Args, Reply](c, "Arith.Mul")
//
// A call goes through two chains of interceptors. The call chain runs once: the
// interceptors given by [WithInterceptors], then the fail mode. The attempt
// chain runs for every attempt: the plugins that intercept attempts and the
// interceptors given by [WithAttemptInterceptors], then the choice of an instance and its connection.
//
// Every error is a [*tandem.Error]; its NotExecuted says whether it is certain
// that no handler ran.
//
// The options of [Dial], by what they are about:
//
//	calls        WithTimeout, WithFailMode, WithRetries, WithAttempts, WithThrottle, WithWait
//	instances    WithBalancer, WithRoute, WithBaggage, WithHashKey, WithEjection, WithBreaker
//	discovery    WithResolver, WithSnapshots
//	policies     WithPolicy, WithPolicyFrom
//	connections  WithConnections, WithTLS, WithTransport, WithProtocols
//	messages     WithCodec, WithCompression, WithMaxMessage
//	extensions   WithInterceptors, WithAttemptInterceptors, WithPlugins, WithLogger
//	serving      WithService, WithFunc, WithID
package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/call"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/failmode"
	"github.com/tandem-rpc/tandem/internal/points"
	"github.com/tandem-rpc/tandem/internal/pool"
	"github.com/tandem-rpc/tandem/internal/rules"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/internal/steer"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
	"github.com/tandem-rpc/tandem/resilience"
)

// Client calls the instances of one target. It is safe for concurrent use.
type Client struct {
	// The fields that every call uses come first: with thousands of clients in a process they
	// are not in the cache when a call begins.
	env    *session.Env
	rules  atomic.Pointer[rules.Rules]
	points *points.Client // nil without plugins
	// intercepted says that interceptors or plugins may keep calls after they have ended, so
	// the memory of calls is not used again.
	intercepted bool
	bare        bool            // the target's protocol carries no metadata
	alone       bool            // the target is one instance, for ever
	usualMode   tandem.FailMode // the fail mode of the options
	usualChain  tandem.Func     // the chain of usualMode
	usual       callDefaults    // the defaults of the options
	lane        atomic.Pointer[lane]
	pool        pool.Pool
	modes       failmode.Modes

	opts       options
	caller     call.Caller // runs calls; without a session of its own
	target     string      // without secrets
	steering   steer.State
	overridden steer.State // what was done with the overrides of the instances
	budget     *resilience.Budget
	degraded   degraded

	baggageDropped atomic.Uint64

	attempt    tandem.Func // the attempt chain, the innermost part of all chains
	makeOthers sync.Once
	others     *[failmode.Count]tandem.Func // the chains of all fail modes; made when a call first uses one other than usualMode

	life *pool.Life // how long the client lives, and its goroutines
}

var _ tandem.Caller = (*Client)(nil)

// Dial returns a client for the target and starts to connect; it does not wait
// for that. It fails for targets and options that can't work. The schemes tcp,
// unix, static, dns and file are built in; others come with [WithResolver].
func Dial(target string, opts ...Option) (*Client, error) {
	c := &Client{opts: builtin(), target: registry.Redact(target)}
	for _, o := range opts {
		o(&c.opts)
	}
	if err := errors.Join(c.opts.wrong...); err != nil {
		return nil, invalid(err)
	}
	if err := c.opts.beginProtocols(); err != nil {
		return nil, invalid(err)
	}
	t, resolver, err := c.opts.resolve(target)
	if err != nil {
		return nil, invalid(err)
	}
	if err := errors.Join(c.opts.withoutEffect(), c.opts.secure(t.Scheme), c.opts.chooseCodec(t), c.opts.fits(c.opts.byProtocol[t.Scheme])); err != nil {
		return nil, invalid(err)
	}
	_, c.bare = c.opts.byProtocol[t.Scheme].(Bare)
	c.opts.baggage.trust(resolver)
	resolve, err := c.methods()
	if err != nil {
		return nil, invalid(err)
	}
	if err := c.beginRules(); err != nil {
		return nil, invalid(err)
	}
	c.usual = c.opts.callDefaults
	settings := session.Settings(c.opts.streamWindow)
	settings.MaxMessage = uint64(c.opts.maxMessage) //nolint:gosec // checked by the option
	cfg := session.Config{
		Settings: settings, Codecs: c.opts.codecs, Compressors: c.opts.compressors, Usual: c.opts.codec,
		CompressAbove: c.opts.compressAbove, Resolve: resolve, Handshake: c.opts.connectTimeout,
		Silence: c.opts.silence, Stall: c.opts.silence, Move: c.pool.Move,
		OnPanic: dispatch.LogPanics(c.opts.logger), OnClose: c.logEnd, Logger: c.opts.logger,
	}
	if err := errors.Join(cfg.Validate(), checkPlugins(c.opts.plugins)); err != nil {
		return nil, invalid(err)
	}
	c.life = pool.NewLife()
	c.env = session.NewEnv(cfg)
	r := c.rules.Load()
	c.budget = resilience.NewBudget(r.BudgetShare, r.BudgetRate, time.Now())
	c.pool.Init(c.poolConfig())
	c.modes.Init(c.modesConfig())
	c.intercepted = len(c.opts.interceptors)+len(c.opts.attemptInterceptors) > 0 || points.Keep(c.opts.plugins)
	c.points = points.OfClient(c.opts.plugins, cfg.OnPanic)
	c.buildChains()
	c.follow(resolver, t)
	c.followPolicy()
	return c, nil
}

func invalid(err error) error {
	return tandem.AsError(&tandem.Error{Code: tandem.InvalidArgument, Message: err.Error(), NotExecuted: true})
}

// methods returns the lookup of the methods that servers may call on this client; nil if there
// are none.
func (c *Client) methods() (func(string) *session.Target, error) {
	if len(c.opts.register) == 0 && len(c.opts.servingPlugins) == 0 {
		return nil, nil
	}
	served := serving{plugins: c.opts.servingPlugins, maxMessage: c.opts.maxMessage}
	if err := served.check(); err != nil {
		return nil, err
	}
	served.onPanic = points.Report(served.plugins, dispatch.LogPanics(c.opts.logger))
	table := dispatch.New(dispatch.Config{OnPanic: served.onPanic, Wrap: served.wrap, Codecs: c.opts.codecs})
	for _, register := range c.opts.register {
		if err := register(table); err != nil {
			return nil, err
		}
	}
	return session.Targets(table, 0, points.Keep(served.plugins), sync.OnceValue(served.absent), nil), nil
}

// logEnd logs that a connection ended, and why.
func (c *Client) logEnd(s *session.Session, reason error) {
	c.log().Debug("connection ended", "peer", s.Peer().Addr, "reason", reason)
}

// quiet is the logger of clients without one.
var quiet = slog.New(slog.DiscardHandler) //nolint:gochecknoglobals // never changed

func (c *Client) log() *slog.Logger {
	if c.opts.logger != nil {
		return c.opts.logger
	}
	return quiet
}

// buildChains makes the attempt chain, which all fail modes share, and the chain of the
// options' fail mode.
func (c *Client) buildChains() {
	attempt := c.points.InterceptAttempt(tandem.Chain(c.points.Select(c.pool.Attempt), c.opts.attemptInterceptors...))
	c.attempt = c.modes.Attempt(attempt, len(c.opts.attemptInterceptors) == 0 && !c.points.OfAttempts())
	c.usualMode = c.opts.failMode
	c.usualChain = c.newChain(c.usualMode)
}

// newChain makes the chain of a fail mode.
func (c *Client) newChain(mode tandem.FailMode) tandem.Func {
	f := c.points.Intercept(tandem.Chain(c.modes.Mode(mode)(c.attempt), c.opts.interceptors...))
	if c.bare {
		return c.withoutMetadata(f)
	}
	return f
}

// otherChains returns the chains of all fail modes. They are made on first use, as most clients
// use only the options' fail mode.
func (c *Client) otherChains() *[failmode.Count]tandem.Func {
	c.makeOthers.Do(func() { // interceptors are called by one goroutine at a time
		c.others = new([failmode.Count]tandem.Func)
		for mode := range c.others {
			c.others[mode] = c.newChain(tandem.FailMode(mode))
		}
	})
	return c.others
}

// follow updates the pool whenever the registry's list changes. A fixed list needs no goroutine
// for that.
func (c *Client) follow(r registry.Resolver, t registry.Target) {
	keeper := &adapter.Keeper{Alive: c.pool.Alive, Dir: c.opts.snapshots, Log: c.opts.logger}
	if fixed, ok := r.(registry.Fixed); ok && c.opts.snapshots == "" {
		list, err := fixed.List(t)
		if err != nil {
			c.noList(err)
			return
		}
		c.alone = len(list) == 1
		view, _ := keeper.Apply(registry.Snapshot{Instances: list, Revision: 1}, time.Now())
		c.pool.Update(view)
		return
	}
	keeper.Unreachable = c.pool.Unreachable()
	watch := c.watcher(keeper, r, t)
	c.life.Go(func() {
		if err := watch(c.life.Context()); c.life.Context().Err() == nil {
			c.noList(err)
		}
	})
}

// noList tells the pool that no list will come.
func (c *Client) noList(err error) { c.pool.GiveUp(fmt.Errorf("target %s: %w", c.target, err)) }

// Done returns a channel that is closed when [Client.Close] begins.
func (c *Client) Done() <-chan struct{} { return c.life.Context().Done() }

// Close ends the client: calls in flight fail. It waits for the client's goroutines, but at
// most five seconds for methods that servers are calling on it and for calls of [Failback]. Its
// error says what did not end in time, and how many calls [Failback] did not make.
func (c *Client) Close() error {
	c.life.Cancel()
	c.pool.Close()
	began := time.Now()
	left := c.modes.Close(closeWait)
	c.life.End()
	if !c.env.Close(closeWait - time.Since(began)) {
		return tandem.AsError(errors.Join(
			tandem.Errorf(tandem.DeadlineExceeded, "methods that servers call on this client did not return within %v", closeWait), left))
	}
	return left
}

const closeWait = 5 * time.Second

// Call makes a unary call: it encodes args, waits for the response, and decodes it into reply,
// a pointer. A nil reply discards the response. Without a deadline in ctx or an option, the
// client's default applies.
func (c *Client) Call(ctx context.Context, method string, args, reply any, opts ...tandem.CallOption) error {
	o := c.prepare(ctx, method, tandem.Unary, args, opts)
	defer o.Release()
	if c.points.OfCalls() {
		return c.runBetween(ctx, o, args, reply)
	}
	return c.caller.Run(ctx, o, c.chain(o), args, reply)
}

// Notify makes a one-way call: it returns when the request is on its way, and never learns how
// the call ended.
func (c *Client) Notify(ctx context.Context, method string, args any, opts ...tandem.CallOption) error {
	o := c.prepare(ctx, method, tandem.OneWay, args, opts)
	defer o.Release()
	if c.points.OfCalls() {
		return c.runBetween(ctx, o, args, nil)
	}
	return c.caller.Run(ctx, o, c.chain(o), args, nil)
}

// runBetween makes a call between BeforeCall and AfterCall of the plugins. BeforeCall may change
// the fail mode, and so the chain.
func (c *Client) runBetween(ctx context.Context, o *call.Outgoing, args, reply any) error {
	return c.points.Call(ctx, &o.Call, func() error { return c.caller.Run(ctx, o, c.chain(o), args, reply) })
}

// OpenStream opens a stream of untyped messages. It lives as long as ctx, or until its
// [Timeout]; the client's default deadline does not apply. [Stream], [ServerStream] and
// [ClientStream] open typed streams.
func (c *Client) OpenStream(ctx context.Context, method string, opts ...tandem.CallOption) (tandem.MessageStream, error) {
	o := c.prepare(ctx, method, tandem.Streaming, nil, opts)
	if c.points == nil {
		return c.caller.OpenWith(ctx, o, c.chain(o))
	}
	return c.points.Open(ctx, &o.Call, func() (tandem.MessageStream, error) { return c.caller.OpenWith(ctx, o, c.chain(o)) })
}

func (c *Client) prepare(ctx context.Context, method string, kind tandem.Kind, args any, opts []tandem.CallOption) *call.Outgoing {
	o := call.NewOutgoing(c.env, c.intercepted)
	o.Points = c.points.Attempts()
	all := c.rules.Load()
	r := all.Of(method)
	o.Rule = r
	made := &o.Call
	if all.Draws {
		made.Draw = rand.Uint32() | 1 // never 0
	}
	made.Body, made.Method, made.Kind, made.Codec, made.Compressor = o, method, kind, c.usual.codec, c.usual.compressor
	made.Route, made.Idempotent = c.usual.route, r.Idempotent
	if r.Degrade != nil && kind == tandem.Unary {
		c.degraded.watch(o, r.Degrade)
	}
	for _, opt := range opts {
		opt(made)
	}
	if served := tandem.FromContext(ctx); served != nil && !c.bare {
		carryCriticality(served, made)
	}
	if b := tandem.BaggageFromContext(ctx); b.Len() > 0 {
		c.carryBaggage(b, made)
	}
	if made.Keyed && (c.alone || made.Pin != "") {
		made.SetMetadata(tandem.AttemptsKey, tandem.AttemptsAlone)
	}
	if c.usual.hashKey != nil && made.HashKey == "" {
		made.HashKey = c.usual.hashKey(method, args)
	}
	o.SetDeadline(ctx, r.Timeout)
	return o
}

func (c *Client) chain(o *call.Outgoing) tandem.Func {
	mode := o.Call.FailMode
	if mode == tandem.FailDefault {
		mode = c.pool.RuleOf(&o.Call).FailMode
	}
	switch {
	case mode >= failmode.Count:
		return noSuchMode
	case !isClass(&o.Call):
		return noSuchClass
	case o.Call.Keyed && wrongKey(&o.Call) != "":
		return refuseKey
	}
	if failmode.Parallel(mode) {
		o.Share()
	}
	if mode == c.usualMode {
		return c.usualChain
	}
	return c.otherChains()[mode]
}

// Pending is a call made with [Client.Go].
type Pending struct {
	Method string
	Args   any
	Reply  any
	Error  error         // valid when Done has delivered
	Done   chan *Pending // delivers the Pending itself
}

// Go makes a unary call without waiting for it. When the call has ended the Pending is sent to
// done; if done is nil, Go makes a channel. As in net/rpc the channel must be buffered: a
// Pending that does not fit is dropped and logged.
func (c *Client) Go(ctx context.Context, method string, args, reply any, done chan *Pending, opts ...tandem.CallOption) *Pending {
	if done == nil {
		done = make(chan *Pending, 1)
	}
	p := &Pending{Method: method, Args: args, Reply: reply, Done: done}
	go func() {
		err := error(failmode.ErrEnded)
		defer func() { // also if an interceptor or a plugin has called runtime.Goexit
			p.Error = err
			select {
			case done <- p:
			default:
				c.log().Warn("result dropped: the Done channel is full", "method", method)
			}
		}()
		err = c.Call(ctx, method, args, reply, opts...)
	}()
	return p
}

const (
	defaultTimeout        = 5 * time.Second
	defaultConnectTimeout = 10 * time.Second
)
