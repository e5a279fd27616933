// Package auth (stable) authenticates callers and decides which methods they may call.
//
//	srv := server.New(server.WithPlugins(auth.New(
//		auth.Bearer(func(ctx context.Context, token string) (any, error) { return verify(token) }),
//		auth.Public("Health.*"),
//		auth.Require("Admin.*", func(identity any) error { … }),
//	)))
//	c, err := client.Dial(target, client.WithPlugins(auth.Token("Bearer", token)))
//
// It runs before arguments are decompressed and decoded, before limits, and on all
// protocols alike. The caller's identity is in the call's Identity; methods get it by
// [Identity]. A caller that is not known gets Unauthenticated, one that is not allowed
// PermissionDenied; in both cases the call has not executed.
package auth

import (
	"context"
	"errors"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin"
)

// Authenticator identifies the caller of a call, by the call's metadata or peer. It returns
// [ErrNoCredentials] if the call has no credentials of its kind. The identity may be any value
// of the application; nil stands for a caller that may call but has no name. It must be safe
// for concurrent use.
type Authenticator interface {
	Authenticate(ctx context.Context, call *tandem.Call) (identity any, err error)
}

// Func is a function as an [Authenticator].
type Func func(ctx context.Context, call *tandem.Call) (identity any, err error)

// Authenticate calls f.
func (f Func) Authenticate(ctx context.Context, call *tandem.Call) (any, error) { return f(ctx, call) }

// ErrNoCredentials is returned by an [Authenticator] for a call without credentials of its
// kind: [Any] then tries the next one.
var ErrNoCredentials = errors.New("the call has no credentials that are known here")

// Any tries each in turn until one finds credentials of its kind, and returns that one's
// result.
func Any(list ...Authenticator) Authenticator {
	return Func(func(ctx context.Context, call *tandem.Call) (any, error) {
		for _, a := range list {
			identity, err := a.Authenticate(ctx, call)
			if !errors.Is(err, ErrNoCredentials) {
				return identity, err
			}
		}
		return nil, ErrNoCredentials
	})
}

// Option changes what [New] returns.
type Option func(*authentication)

// Public lets all callers call the methods of the pattern: "Service.Method", "Service.*" or
// "*". They are not authenticated.
func Public(pattern string) Option {
	return func(p *authentication) { p.public = append(p.public, pattern) }
}

// Require restricts the methods of the pattern, as for [Public], to callers for which allow
// returns nil. If several patterns match a method, all must allow the call.
func Require(pattern string, allow func(identity any) error) Option {
	return RequireCall(pattern, func(_ context.Context, call *tandem.Call) error { return allow(call.Identity) })
}

// RequireCall is [Require] for rules that need more than the identity. The call's arguments are
// not decoded yet.
func RequireCall(pattern string, allow func(ctx context.Context, call *tandem.Call) error) Option {
	return func(p *authentication) { p.rules = append(p.rules, rule{pattern, allow}) }
}

type rule struct {
	pattern string
	allow   func(ctx context.Context, call *tandem.Call) error
}

type authentication struct {
	by     Authenticator
	public []string
	rules  []rule
}

// New returns the plugin, for server.WithPlugins. It must come before plugins that use the
// identity.
func New(a Authenticator, opts ...Option) plugin.PerMethod {
	p := &authentication{by: a}
	for _, o := range opts {
		o(p)
	}
	return p
}

// KeepsNothing implements [plugin.KeepsNothing]. It holds if the functions given to New keep
// nothing either.
func (*authentication) KeepsNothing() {}

// ForMethod compiles the rules of a method.
func (p *authentication) ForMethod(m plugin.Method) any {
	for _, pattern := range p.public {
		if fits(pattern, m.Name) {
			return nil
		}
	}
	g := &guard{by: p.by}
	for _, r := range p.rules {
		if fits(r.pattern, m.Name) {
			g.rules = append(g.rules, r.allow)
		}
	}
	return g
}

// fits reports whether a method matches a pattern.
func fits(pattern, method string) bool {
	if pattern == "*" {
		return true
	}
	if service, all := strings.CutSuffix(pattern, ".*"); all {
		of, _, _ := cutLast(method)
		return of == service
	}
	return pattern == method
}

func cutLast(method string) (service, name string, ok bool) {
	i := strings.LastIndexByte(method, '.')
	if i < 0 {
		return "", method, false
	}
	return method[:i], method[i+1:], true
}

// guard authenticates the calls of one method.
type guard struct {
	by    Authenticator
	rules []func(ctx context.Context, call *tandem.Call) error
}

// BeforeRequestHeader refuses calls of callers that are not known or not allowed.
func (g *guard) BeforeRequestHeader(ctx context.Context, call *tandem.Call) error {
	identity, err := g.by.Authenticate(ctx, call)
	if err != nil {
		return coded(err, tandem.Unauthenticated)
	}
	call.Identity = identity
	for _, allow := range g.rules {
		if err := allow(ctx, call); err != nil {
			return coded(err, tandem.PermissionDenied)
		}
	}
	return nil
}

// coded returns err with that code, unless it has a code already.
func coded(err error, code tandem.Code) error {
	e := *tandem.AsError(err)
	if e.Code == tandem.Unknown {
		e.Code = code
	}
	return &e
}

// Identity returns the identity of the call that a handler runs for; false if there is none, or
// it is not a T.
func Identity[T any](ctx context.Context) (who T, ok bool) {
	call := tandem.FromContext(ctx)
	if call == nil {
		return who, false
	}
	who, ok = call.Identity.(T)
	return who, ok
}
