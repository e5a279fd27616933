package plugin

import (
	"context"
	"net"

	"github.com/tandem-rpc/tandem"
)

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

// InterceptsAttempts is a plugin that wraps each attempt like an interceptor of the client's option
// WithAttemptInterceptors, outside those: for code that runs before and after an attempt, or gives
// it another context.
type InterceptsAttempts interface {
	InterceptAttempt(next tandem.Func) tandem.Func
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
// returns replaces err, and may not change NotExecuted; nil leaves err. It is not called for
// one-way calls.
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
