// Package redislimit (experimental) limits the rate of calls over all instances of a service, which
// count in one Redis.
//
//	limits := redislimit.New(redis.NewClient(&redis.Options{Addr: "10.0.0.1:6379"}), "shop/Orders",
//		redislimit.PerCaller(redislimit.Limit{Rate: 100, Burst: 20}),
//		redislimit.Method("Orders.Export", redislimit.Limit{Rate: 2}),
//	)
//	srv := server.New(server.WithPlugins(auth, limits))
//
// Each call costs a round trip to Redis for each limit that applies to it; package
// plugin/ratelimit, which counts in the process, costs none. An answer has 50 ms
// ([WithTimeout]). Without one the instance counts by itself, with the share of [WithFallback] of
// the limit, and asks Redis again after a second: calls go on, and a caller may get up to that share from each
// instance. [Limits.Status] counts such calls.
package redislimit

import (
	"context"
	"crypto/sha256"
	_ "embed" // the script
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
	"github.com/tandem-rpc/tandem/plugin/ratelimit"
)

//go:embed take.lua
var take string

// Limit is how many calls are allowed.
type Limit struct {
	Rate  float64 // calls a second, in the long run; more than 0
	Burst int     // calls that may come at once; a tenth of Rate if 0, 1 at least
}

func (l Limit) burst() int {
	if l.Burst > 0 {
		return l.Burst
	}
	return max(1, int(l.Rate/10)) //nolint:mnd // as documented
}

// The defaults, and what is bounded.
const (
	defaultTimeout = 50 * time.Millisecond
	pause          = time.Second // after a failure: calls are counted here
	maxLocal       = 10_000      // keys that are counted here at a time, for each limit
	longestKey     = 128         // bytes; a longer one is hashed
)

// Option adds a limit, or changes what [New] returns.
type Option func(*Limits)

// PerCaller limits the calls of each caller, as ratelimit.PerCaller does.
func PerCaller(l Limit) Option { return By("caller", ratelimit.Caller, l) }

// PerCallerAndMethod limits the calls of each caller to each method.
func PerCallerAndMethod(l Limit) Option {
	return By("caller and method", func(call *tandem.Call) string {
		if who := ratelimit.Caller(call); who != "" {
			return call.Method + " " + who
		}
		return ""
	}, l)
}

// Method limits the calls of each method of a pattern, "Service.Method", "Service.*" or "*", by all callers together.
func Method(pattern string, l Limit) Option {
	return func(p *Limits) { p.add(&scope{name: "method", pattern: pattern, limit: l}) }
}

// By limits the calls of each key. name tells the limit from others of the service, in Redis and in errors.
// Calls with the key "" are not limited. The call's Method is the registered name, not an alias.
func By(name string, key func(call *tandem.Call) string, l Limit) Option {
	return func(p *Limits) { p.add(&scope{name: name, key: key, limit: l}) }
}

// WithTimeout sets how long a call waits for Redis; 50 ms by default.
func WithTimeout(d time.Duration) Option { return func(p *Limits) { p.timeout = d } }

// WithFallback sets which share of the limits an instance allows by itself while Redis does not answer: 1 by
// default, the whole limit. With ten instances a tenth keeps the sum.
func WithFallback(share float64) Option { return func(p *Limits) { p.share = share } }

// WithLogger sets the logger for the beginning and the end of outages; none by default.
func WithLogger(l *slog.Logger) Option { return func(p *Limits) { p.logger = l } }

// Limits is a plugin for servers. It is safe for concurrent use.
type Limits struct {
	redis   redis.Scripter
	prefix  string
	timeout time.Duration
	share   float64
	logger  *slog.Logger
	scopes  []*scope
	wrong   error
	script  *redis.Script

	shared, local, refused, failures atomic.Uint64

	retry atomic.Int64 // when Redis is asked again, in Unix nanoseconds; 0 while it answers
	mu    sync.Mutex
	err   error // why Redis was not asked last
}

// scope is a limit and the calls that it applies to.
type scope struct {
	name    string
	pattern string                    // of methods, without key
	key     func(*tandem.Call) string // nil for a scope of methods
	limit   Limit

	mu    sync.Mutex
	local map[string]*rate.Limiter // while Redis is away
}

// New returns a plugin that counts in Redis under the service's name: instances with the same name
// share their limits. It must come after the plugins that authenticate. It returns an error for limits that can't
// be right.
func New(client redis.Scripter, service string, opts ...Option) (*Limits, error) {
	p := &Limits{redis: client, prefix: "tandem-limit:" + service + ":", timeout: defaultTimeout, share: 1, logger: slog.New(slog.DiscardHandler), script: redis.NewScript(take)}
	for _, o := range opts {
		o(p)
	}
	switch {
	case client == nil || service == "":
		p.wrong = errors.New("want a client and the name of the service")
	case p.timeout <= 0 || p.share < 0 || p.share > 1:
		p.wrong = fmt.Errorf("timeout %v, fallback %v: want more than 0, and 0 to 1", p.timeout, p.share)
	case len(p.scopes) == 0:
		p.wrong = errors.New("there is no limit")
	}
	if p.wrong != nil {
		return nil, fmt.Errorf("redislimit: %w", p.wrong)
	}
	return p, nil
}

func (p *Limits) add(s *scope) {
	if !(s.limit.Rate > 0) || s.limit.Burst < 0 {
		p.wrong = fmt.Errorf("the limit by %s: rate %v, burst %d: want a rate above 0", s.name, s.limit.Rate, s.limit.Burst)
	}
	p.scopes = append(p.scopes, s)
}

// Status says how calls were counted.
type Status struct {
	Shared   uint64 // by Redis
	Local    uint64 // by this instance, as Redis did not answer in time
	Refused  uint64 // of both
	Failures uint64 // questions that Redis did not answer in time
	Away     bool   // calls are counted by this instance now
	Error    string // why; "" while Redis answers
}

// Status returns the counts.
func (p *Limits) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{Shared: p.shared.Load(), Local: p.local.Load(), Refused: p.refused.Load(), Failures: p.failures.Load(), Away: p.retry.Load() != 0}
	if p.err != nil {
		s.Error = p.err.Error()
	}
	return s
}

// KeepsNothing implements [plugin.KeepsNothing].
func (*Limits) KeepsNothing() {}

// ForMethod returns the plugin for the calls of a method; nil if no limit applies.
func (p *Limits) ForMethod(m plugin.Method) any {
	g := &gate{of: p, method: m.Name}
	for _, s := range p.scopes {
		if s.key != nil || fits(s.pattern, m.Name) {
			g.scopes = append(g.scopes, s)
		}
	}
	if len(g.scopes) == 0 {
		return nil
	}
	return g
}

// fits reports whether a method matches a pattern.
func fits(pattern, method string) bool {
	if service, all := strings.CutSuffix(pattern, ".*"); all {
		i := strings.LastIndexByte(method, '.')
		return i >= 0 && method[:i] == service
	}
	return pattern == "*" || pattern == method
}

// gate has the limits that calls of one method pass.
type gate struct {
	of     *Limits
	method string
	scopes []*scope
}

// BeforeRequestHeader refuses calls that are beyond a limit.
func (g *gate) BeforeRequestHeader(ctx context.Context, call *tandem.Call) error {
	for _, s := range g.scopes {
		key := g.method
		if s.key != nil {
			if key = s.key(call); key == "" {
				continue
			}
		}
		if wait := g.of.take(ctx, s, key); wait > 0 {
			g.of.refused.Add(1)
			return &tandem.Error{
				Code: tandem.ResourceExhausted, NotExecuted: true, RetryAfter: wait,
				Message: fmt.Sprintf("the limit by %s is %v calls a second over all instances: come again in %v", s.name, s.limit.Rate, wait.Round(time.Millisecond)),
			}
		}
	}
	return nil
}

// take counts a call, and returns how much later it would be allowed; 0 if it is.
func (p *Limits) take(ctx context.Context, s *scope, key string) time.Duration {
	if p.mayAsk() {
		wait, err := p.ask(ctx, s, key)
		if err == nil {
			p.answered()
			p.shared.Add(1)
			return wait
		}
		if ctx.Err() == nil { // else it is the call that has ended
			p.failed(err)
		}
	}
	p.local.Add(1)
	return s.takeLocally(key, p.share)
}

// mayAsk reports whether Redis answers, or one call may try whether it does again.
func (p *Limits) mayAsk() bool {
	at := p.retry.Load()
	if at == 0 {
		return true
	}
	now := time.Now()
	return now.UnixNano() >= at && p.retry.CompareAndSwap(at, now.Add(pause).UnixNano())
}

func (p *Limits) ask(ctx context.Context, s *scope, key string) (time.Duration, error) {
	if len(key) > longestKey {
		sum := sha256.Sum256([]byte(key))
		key = hex.EncodeToString(sum[:])
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	each := float64(time.Second/time.Microsecond) / s.limit.Rate
	micros, err := p.script.Run(ctx, p.redis, []string{p.prefix + s.name + ":" + s.pattern + ":" + key}, each, s.limit.burst()).Int64()
	return time.Duration(micros) * time.Microsecond, err
}

// failed has calls counted by this instance for a while.
func (p *Limits) failed(err error) {
	p.failures.Add(1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
	if p.retry.Swap(time.Now().Add(pause).UnixNano()) == 0 {
		p.logger.Error("Redis does not count calls: each instance counts by itself", "share", p.share, "error", err)
	}
}

// answered ends that.
func (p *Limits) answered() {
	if p.retry.Load() == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.retry.Swap(0) != 0 {
		p.err = nil
		p.logger.Info("Redis counts calls again")
	}
}

// takeLocally counts a call in this process.
func (s *scope) takeLocally(key string, share float64) time.Duration {
	if share == 0 {
		return pause
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.local[key]
	if l == nil {
		if s.local == nil {
			s.local = map[string]*rate.Limiter{}
		}
		for other := range s.local { // Go's maps choose which is forgotten
			if len(s.local) < maxLocal {
				break
			}
			delete(s.local, other)
		}
		l = rate.NewLimiter(rate.Limit(s.limit.Rate*share), max(1, int(float64(s.limit.burst())*share)))
		s.local[key] = l
	}
	now := time.Now()
	r := l.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait > 0 {
		r.CancelAt(now)
	}
	return wait
}
