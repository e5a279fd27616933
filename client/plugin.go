package client

import (
	"context"
	"fmt"
	"net"

	"github.com/tandem-rpc/tandem"
)

// WithPlugins adds plugins: values that implement one or more of the points below,
// from [Connected] to [AfterCall]. Calls, one-way calls and streams pass them.
//
// Points of the request call the plugins in the order in which they are given, points of the
// response in reverse order. A call passes
//
//	BeforeCall             once; then the arguments are encoded
//	Intercept              once, as functions in one another; then WithInterceptors
//	                       the fail mode, which makes attempts; for each
//	BeforeSelect             before an instance is chosen
//	BeforeRequest            when it is chosen, before the request is written
//	AfterRequest             when that is on its way, or could not be sent
//	BeforeResponseHeader     when a response has come
//	AfterResponseHeader      when it is known how the attempt ended
//	BeforeResponseBody     before the reply is decoded
//	AfterResponseBody      when it is
//	AfterCall              once
//
// An error fails the call, or the attempt, which the fail mode may then make elsewhere if the
// code allows it. The caller gets it as a [*tandem.Error]; an error without a code, from a
// point before the response, becomes PermissionDenied. A panic is logged and fails the call
// with Internal. Attempts may run in parallel, each with its own copy of the Call.
//
// A value that implements no point makes Dial fail.
func WithPlugins(plugins ...any) Option {
	return func(o *options) { o.plugins = append(o.plugins, plugins...) }
}

// Connected is a plugin that sees each new connection to a server, after the TLS handshake and
// before tandem writes to it. It returns the connection, or one that wraps it, or an error:
// then the connection is closed, and the client tries again later.
type Connected interface {
	Connected(c net.Conn) (net.Conn, error)
}

// BeforeCall is a plugin that sees each call before anything happens to it. It may
// change the call.
type BeforeCall interface {
	BeforeCall(ctx context.Context, call *tandem.Call) error
}

// Intercepts is a plugin that wraps calls like a [tandem.Interceptor] of
// [WithInterceptors].
type Intercepts interface {
	Intercept(next tandem.Func) tandem.Func
}

// BeforeSelect is a plugin that sees each attempt before an instance is chosen: it may
// set what the choice depends on, as the call's HashKey, Pin, Exclude and Route.
type BeforeSelect interface {
	BeforeSelect(ctx context.Context, call *tandem.Call) error
}

// BeforeRequest is a plugin that sees each attempt when its instance is chosen: the
// call's Peer. It may change the metadata.
type BeforeRequest interface {
	BeforeRequest(ctx context.Context, call *tandem.Call) error
}

// AfterRequest is a plugin that is called when an attempt's request is in the queue to be
// written, or can't be sent because of err. It may run after the response has come.
type AfterRequest interface {
	AfterRequest(ctx context.Context, call *tandem.Call, err error)
}

// BeforeResponseHeader is a plugin that is called when a response has come, before it is
// parsed. A stream has a response when the server has accepted it.
type BeforeResponseHeader interface {
	BeforeResponseHeader(ctx context.Context, call *tandem.Call)
}

// AfterResponseHeader is a plugin that sees how an attempt ended: err is the server's error, or
// the reason why there is no response; for a unary call the Trailer is set. An error that it
// returns replaces err, and may not change NotExecuted; nil leaves err.
type AfterResponseHeader interface {
	AfterResponseHeader(ctx context.Context, call *tandem.Call, err error) error
}

// BeforeResponseBody is a plugin that is called before the reply is decoded, and before each
// message that a stream receives.
type BeforeResponseBody interface {
	BeforeResponseBody(ctx context.Context, call *tandem.Call) error
}

// AfterResponseBody is a plugin that sees the decoded reply, a pointer, or the error of
// decoding it, and so for each message that a stream receives. An error that it returns
// replaces err; nil leaves err.
type AfterResponseBody interface {
	AfterResponseBody(ctx context.Context, call *tandem.Call, reply any, err error) error
}

// AfterCall is a plugin that is called exactly once for each call, when it has ended: also
// for a call that another plugin refused, and for a stream when it is over.
type AfterCall interface {
	AfterCall(ctx context.Context, call *tandem.Call, end tandem.Outcome)
}

// KeepsNothing is implemented by plugins that promise to keep no call when their functions have
// returned, and to make no attempts of their own. If all plugins do, and there are no
// interceptors, the memory of calls is used again.
type KeepsNothing interface {
	KeepsNothing()
}

// keep reports whether a plugin may keep calls that it sees.
func keep(plugins []any) bool {
	for _, p := range plugins {
		if _, promised := p.(KeepsNothing); !promised {
			return true
		}
	}
	return false
}

// checkPlugins returns an error for a value that is no plugin.
func checkPlugins(plugins []any) error {
	for _, p := range plugins {
		switch p.(type) {
		case Connected, BeforeCall, Intercepts, BeforeSelect, BeforeRequest, AfterRequest,
			BeforeResponseHeader, AfterResponseHeader, BeforeResponseBody, AfterResponseBody, AfterCall:
		default:
			return fmt.Errorf("%T implements no point of WithPlugins: see Connected to AfterCall", p)
		}
	}
	return nil
}
