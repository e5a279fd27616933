// Package once (experimental) runs calls with an idempotency key at most once. Its plugin keeps
// the answer of the first call with a key, and answers later ones with it, byte for byte:
//
//	srv := server.New(server.WithPlugins(auth, once.New(store)))
//	err := c.Call(ctx, "Orders.Place", order, &receipt, client.Key("order-17"), client.FailMode(client.Failover))
//
// So a client's fail modes may retry the call although an attempt may have run. A record belongs to
// the authenticated caller, the method and the key: callers don't see each other's answers.
// Another request under the same key, by its fingerprint, is refused.
//
// # What is promised
//
// It depends on the [Store], and holds as long as the store remembers the record:
//
//	Memory       one instance; each call runs at most once while the process lives
//	redisstore   each call runs at most once; a call that a crash interrupted is undecided
//	sqlstore     what a method does in the record's transaction happens exactly once
//
// The last two are packages of the module stores. A call is undecided if its instance ended, or lost
// the store, while the method ran: it may have done all, a part, or nothing of its work. It is
// never run again. Its callers get an error with [Undecided], until an operator has looked and
// calls [Store].Resolve.
//
// # How a call runs
//
// A second call with the key waits for the first one, on any instance. The method's context
// does not end when its caller gives up, as others may wait for the answer; it ends after
// [WithTimeout]. A call without a key passes at no cost.
//
// An error of the method is an answer like any other, and is repeated, unless the call certainly did
// not run, the method says [Undone], or the store has transactions, which an error rolls back:
// then a later call with the key runs.
package once

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
)

const (
	defaultTimeout   = time.Minute
	defaultMaxAnswer = 1 << 20
	maxKey           = 255
)

// Option changes what [New] returns.
type Option func(*Plugin)

// WithCaller sets the function that names the caller of a call, for the call's record. By default
// it is the call's Identity, which must be a string or a fmt.Stringer, and calls without one are
// refused. [Anyone] is for servers that don't authenticate.
func WithCaller(name func(call *tandem.Call) (string, error)) Option {
	return func(p *Plugin) { p.caller = name }
}

// WithTimeout bounds how long a method runs for a call with a key, in place of the caller's deadline; 1
// minute by default.
func WithTimeout(d time.Duration) Option {
	return func(p *Plugin) { p.timeout = cmp.Or(max(0, d), defaultTimeout) }
}

// WithMaxAnswer sets the size in bytes of the largest answer that is kept; 1 MiB by default. A call
// with a larger one runs at most once, too, but later calls get an error with [Unrepeatable].
func WithMaxAnswer(n int) Option { return func(p *Plugin) { p.maxAnswer = max(0, n) } }

// WithLogger sets where errors of the store are logged, whose text callers don't get; nowhere by
// default.
func WithLogger(l *slog.Logger) Option {
	return func(p *Plugin) {
		if l != nil {
			p.log = l
		}
	}
}

// Anyone is a function for [WithCaller] on servers that don't authenticate callers: they
// all share one set of keys, and can read each other's answers.
func Anyone(*tandem.Call) (string, error) { return "", nil }

// Plugin runs calls with a key at most once. It is for server.WithPlugins, after the plugin that
// authenticates. It is safe for concurrent use.
type Plugin struct {
	store     Store
	caller    func(call *tandem.Call) (string, error)
	timeout   time.Duration
	maxAnswer int
	log       *slog.Logger

	flights flights
	counts  counts
}

var (
	_ plugin.PerMethod    = (*Plugin)(nil)
	_ plugin.KeepsNothing = (*Plugin)(nil)
)

// New returns a plugin that keeps records in store.
func New(store Store, opts ...Option) *Plugin {
	p := &Plugin{
		store: store, caller: identity, timeout: defaultTimeout, maxAnswer: defaultMaxAnswer,
		log: slog.New(slog.DiscardHandler), flights: flights{running: map[ID]chan struct{}{}},
	}
	for _, o := range opts {
		o(p)
	}
	return p
}

// KeepsNothing implements [plugin.KeepsNothing].
func (*Plugin) KeepsNothing() {}

// ForMethod returns the plugin of a method. Streams have no keys.
func (p *Plugin) ForMethod(m plugin.Method) any {
	if m.Name == "" || m.Kind != tandem.Unary {
		return nil
	}
	return &method{plugin: p, name: m.Name}
}

// identity names a caller by its identity.
func identity(call *tandem.Call) (string, error) {
	switch who := call.Identity.(type) {
	case nil:
		return "", tandem.Errorf(tandem.Unauthenticated, "a key belongs to an authenticated caller, and this one is not: "+
			"the server needs a plugin that authenticates before that of package once, or once.WithCaller")
	case string:
		return who, nil
	case fmt.Stringer:
		return who.String(), nil
	default:
		return "", tandem.Errorf(tandem.Internal, "an identity of type %T does not name a caller: give the server once.WithCaller", who)
	}
}

// request describes a call to the store, or refuses it.
func (m *method) request(call *tandem.Call) (r Request, err error) {
	if call.Kind != tandem.Unary {
		return r, tandem.Errorf(tandem.InvalidArgument, "a key is for calls with a response")
	}
	r.Method = m.name
	if r.Key, err = only(call, tandem.KeyKey, "key"); err != nil {
		return r, err
	}
	if r.Fingerprint, err = only(call, tandem.FingerprintKey, "fingerprint"); err != nil {
		return r, err
	}
	r.Alone, r.Again = call.HasAttempts(tandem.AttemptsAlone), call.HasAttempts(tandem.AttemptsAgain)
	r.Caller, err = m.plugin.caller(call)
	return r, err
}

// only returns the one value of a metadata key.
func only(call *tandem.Call, name, what string) (string, error) {
	values := call.Metadata[name]
	if len(values) == 1 && isKey(values[0]) {
		return values[0], nil
	}
	return "", tandem.Errorf(tandem.InvalidArgument, "the %s of a call with a key: want one value under %q, of 1 to %d bytes of printable ASCII without spaces", what, name, maxKey)
}

func isKey(text string) bool {
	return text != "" && len(text) <= maxKey && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f })
}

type tokenKey struct{}

// Token returns the fencing token of the call with a key that a method runs for. A later claim of the
// same record has a larger token, so a system that the method writes to can refuse a writer that
// was delayed. It returns false without a key, and with a store whose transactions make tokens
// needless.
func Token(ctx context.Context) (token uint64, ok bool) {
	token, ok = ctx.Value(tokenKey{}).(uint64)
	return token, ok
}
