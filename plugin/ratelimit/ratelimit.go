// Package ratelimit (stable) bounds how many calls a second, and how many at a time, a server
// takes: in all, of a method, of a caller, or from an address.
//
//	limits := ratelimit.New(
//		ratelimit.PerServer(ratelimit.Limit{Rate: 10_000, Burst: 500}),
//		ratelimit.PerCaller(ratelimit.Limit{Rate: 100, Burst: 20, AtOnce: 8}),
//		ratelimit.Method("Report.*", ratelimit.Limit{AtOnce: 2}),
//	)
//	srv := server.New(server.WithPlugins(auth, limits))
//
// A call beyond a limit is refused with ResourceExhausted, has not executed, and gets a
// RetryAfter if that is known. No call waits here: for that there are server.WithMaxConcurrency
// and [plugin.MethodConcurrency]. Rates are token buckets (golang.org/x/time/rate). The
// limits of callers and other keys are checked first, then those of methods, then those of
// the server: the refused calls of one caller use up nothing that others share.
package ratelimit

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
)

// Limit is how many calls are allowed. Its zero fields limit nothing.
type Limit struct {
	Rate   float64 // calls a second, in the long run
	Burst  int     // calls that may come at once; a tenth of Rate if 0, 1 at least
	AtOnce int     // calls in flight
}

func (l Limit) burst() int {
	if l.Burst > 0 {
		return l.Burst
	}
	return max(1, int(l.Rate/10)) //nolint:mnd // as documented
}

// Option adds a limit.
type Option func(*Plugin)

// PerServer limits all calls together.
func PerServer(l Limit) Option {
	return func(p *Plugin) { p.add(scope{what: "the server", limit: l, key: nil}) }
}

// PerMethod limits the calls of each method.
func PerMethod(l Limit) Option { return Method("*", l) }

// Method limits the calls of each method of a pattern: "Service.Method", "Service.*" or
// "*".
func Method(pattern string, l Limit) Option {
	return func(p *Plugin) { p.add(scope{what: "the method", pattern: pattern, limit: l}) }
}

// PerCaller limits the calls of each caller: of each identity that an earlier plugin has found,
// and of each address for calls without an identity.
func PerCaller(l Limit) Option { return By("the caller", Caller, l) }

// PerAddress limits the calls from each IP address.
func PerAddress(l Limit) Option { return By("the address", Address, l) }

// By limits the calls of each key, of which there may be many: see [WithMaxKeys]. what is the
// text for errors. Calls with the key "" are not limited.
func By(what string, key func(call *tandem.Call) string, l Limit) Option {
	return func(p *Plugin) { p.add(scope{what: what, limit: l, key: key}) }
}

// Caller is a key for [By]: the identity that was authenticated, or else the [Address]. An
// identity must be a string, a [fmt.Stringer], a number, or a struct of such values, and lists
// of them, or a pointer to one. Others can't be compared, and the Address counts.
func Caller(call *tandem.Call) string {
	switch who := call.Identity.(type) {
	case nil:
		return Address(call)
	case string:
		return "id " + who
	case fmt.Stringer:
		return "id " + who.String()
	default:
		v := reflect.ValueOf(who)
		t := v.Type()
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
			if basic(t.Kind()) && !v.IsNil() {
				who = v.Elem().Interface() // package fmt would print the pointer's address
			}
		}
		if !telling(t) {
			return Address(call)
		}
		return "id " + fmt.Sprint(who)
	}
}

// telling reports whether package fmt prints equal values of a type alike: it prints inner
// pointers as addresses.
func telling(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			if !telling(f.Type) {
				return false
			}
		}
		return true
	case reflect.Array:
		return telling(t.Elem())
	case reflect.Slice: // no deeper: its elements may be of its own type
		return basic(t.Elem().Kind())
	}
	return basic(t.Kind())
}

func basic(k reflect.Kind) bool {
	return reflect.Bool <= k && k <= reflect.Complex128 || k == reflect.String
}

// Address is a key for [By]: the IP address that the call came from, or the text of an address
// of another kind.
func Address(call *tandem.Call) string {
	if call.Peer == nil || call.Peer.Addr == nil {
		return ""
	}
	if tcp, ok := call.Peer.Addr.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("").String()
	}
	text := call.Peer.Addr.String()
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().WithZone("").String()
	}
	return text
}

// WithMaxKeys bounds how many keys of [PerCaller], [PerAddress] and each [By] are remembered;
// 10,000 by default. The least recently used one is evicted for a new one; while all have calls
// in flight, new ones share one limit.
func WithMaxKeys(n int) Option { return func(p *Plugin) { p.most = max(1, n) } }

const defaultMaxKeys = 10_000

// Plugin is a plugin for servers. It is safe for concurrent use.
type Plugin struct {
	most   int
	scopes []scope
	shared []*keyed // limits of the scopes with a key or of the server; nil for scopes of methods
}

// scope is a limit and the calls that it applies to.
type scope struct {
	what    string
	pattern string // pattern of methods; "" for other scopes
	limit   Limit
	key     func(*tandem.Call) string
}

// New returns a plugin. To limit callers by identity it must come after the plugins that
// authenticate.
func New(opts ...Option) *Plugin {
	p := &Plugin{most: defaultMaxKeys}
	for _, o := range opts {
		o(p)
	}
	for _, s := range p.scopes {
		if s.pattern == "" {
			p.shared = append(p.shared, newKeyed(s, p.most))
		} else {
			p.shared = append(p.shared, nil)
		}
	}
	return p
}

func (p *Plugin) add(s scope) { p.scopes = append(p.scopes, s) }

// KeepsNothing implements [plugin.KeepsNothing].
func (*Plugin) KeepsNothing() {}

// ForMethod compiles the limits that apply to a method.
func (p *Plugin) ForMethod(m plugin.Method) any {
	var g gate
	for i, s := range p.scopes {
		switch {
		case s.pattern == "":
			g = append(g, p.shared[i])
		case fits(s.pattern, m.Name):
			g = append(g, newKeyed(s, 1))
		}
	}
	if g == nil {
		return nil
	}
	slices.SortStableFunc(g, func(a, b *keyed) int { return cmp.Compare(a.scope.width(), b.scope.width()) })
	return g
}

// width is larger for a scope that more callers share.
func (s *scope) width() int {
	switch {
	case s.key != nil:
		return 0
	case s.pattern != "":
		return 1
	}
	return 2
}

// fits reports whether a method matches a pattern.
func fits(pattern, method string) bool {
	if service, all := strings.CutSuffix(pattern, ".*"); all {
		i := strings.LastIndexByte(method, '.')
		return i >= 0 && method[:i] == service
	}
	return pattern == "*" || pattern == method
}

// gate are the limits that calls of one method pass.
type gate []*keyed

// Intercept refuses calls that are beyond a limit.
func (g gate) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		return g.pass(ctx, call, next, 0)
	}
}

// pass passes the limits from i on, and then makes the call.
func (g gate) pass(ctx context.Context, call *tandem.Call, next tandem.Func, i int) error {
	if i == len(g) {
		return next(ctx, call)
	}
	k := g[i]
	key, limited := k.of(call)
	if !limited {
		return g.pass(ctx, call, next, i+1)
	}
	b, wait := k.enter(key)
	if b == nil {
		return k.refusal(wait)
	}
	defer k.leave(b)
	return g.pass(ctx, call, next, i+1)
}

func (k *keyed) refusal(wait time.Duration) error {
	e := &tandem.Error{Code: tandem.ResourceExhausted, NotExecuted: true, RetryAfter: wait}
	if wait > 0 {
		e.Message = fmt.Sprintf("%s may make %v calls a second: come again in %v", k.scope.what, k.scope.limit.Rate, wait.Round(time.Millisecond))
	} else {
		e.Message = fmt.Sprintf("%s may have %d calls in flight", k.scope.what, k.scope.limit.AtOnce)
	}
	return e
}

func newBucket(l Limit, key string) *bucket {
	b := &bucket{key: key}
	if l.Rate > 0 {
		b.rate = rate.NewLimiter(rate.Limit(l.Rate), l.burst())
	}
	return b
}
