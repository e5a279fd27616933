package server

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"slices"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/dispatch"
)

// WithPlugins adds plugins: values that implement one or more of the points below,
// from [ServiceRegistered] to [Panicked]. All protocols on the port pass the
// same points, and so do streams.
//
// What comes in passes the plugins in the order in which they are given: the
// connection, the head of a request, its body. What goes out passes them the other
// way round, so that the first plugin sees a call first and last. A call passes
//
//	BeforeRequestHeader   every plugin's
//	Intercept             every plugin's, as functions in one another
//	AfterRequestHeader    every plugin's
//	                      the limits of WithMaxConcurrency and MethodConcurrency
//	                      the interceptors of WithInterceptors
//	BeforeRequestBody     every plugin's, when the method wants its arguments
//	AfterRequestBody      every plugin's, when they are decoded
//	                      the method
//	BeforeResponse        every plugin's, the last plugin first
//	AfterResponse         every plugin's, likewise
//
// Calls of methods that do not exist, and those that can't be made, as of a codec that is
// not known, pass the same points but for those of bodies, and end with an error. So a
// caller that is refused does not learn what exists. An error refuses the call: the
// caller gets it as a [*tandem.Error], with PermissionDenied for its code unless it
// names one, and the method does not run. A panic is logged and fails the call that it
// happened in, with Internal; others notice nothing.
//
// They apply to methods registered on this server, whenever that is. A value that
// implements no point makes Serve fail.
func WithPlugins(plugins ...any) Option {
	return func(o *options) { o.plugins = append(o.plugins, plugins...) }
}

// ServiceRegistered is a plugin that is told of every service that is registered, and
// of every single function, before calls reach it. An error refuses the
// registration. It may be called at any time, by several goroutines at once, and
// may itself register and ask for names.
type ServiceRegistered interface {
	ServiceRegistered(r *Registration) error
}

// Registration is what is about to be registered, as a whole or not at all.
type Registration struct {
	Service  string   // "" for a function whose name has no dot
	Receiver any      // the value whose methods they are; nil for functions
	Methods  []Method // at least one

	aliases map[string]string
}

// Alias gives a method, or a service with all its methods, one more name, as
// [Server.Alias] does, in the same registration.
func (r *Registration) Alias(alias, name string) {
	if r.aliases == nil {
		r.aliases = map[string]string{}
	}
	r.aliases[alias] = name
}

// ConnAccepted is a plugin that sees each connection before its first byte is read,
// and before TLS shakes hands. It returns the connection, or one that wraps it, or an
// error: then the connection is closed. Waiting here holds up no other connection, but
// counts as one that has not said what it is; it should end soon.
//
// A wrapper hides what a socket can do beyond [net.Conn], which costs a little speed.
type ConnAccepted interface {
	ConnAccepted(c net.Conn) (net.Conn, error)
}

// ConnClosed is a plugin that is told of the end of each connection that its ConnAccepted
// has accepted, exactly once; a plugin without ConnAccepted counts as accepting every
// connection. It is also told of connections that a later plugin refused, and of those that
// ended before their protocol was known. c is the connection that ConnAccepted was given.
// ConnClosed must not block: the goroutine that ends the connection waits for it.
type ConnClosed interface {
	ConnClosed(c net.Conn, reason error)
}

// BeforeRequestHeader is a plugin that sees a call before anything else does. The
// Call's Method, Peer and Metadata are as they came; nobody may have registered such a
// method.
type BeforeRequestHeader interface {
	BeforeRequestHeader(ctx context.Context, call *tandem.Call) error
}

// Intercepts is a plugin that wraps calls like a [tandem.Interceptor]: for whatever
// has to happen round a call, or needs another context.
type Intercepts interface {
	Intercept(next tandem.Func) tandem.Func
}

// AfterRequestHeader is a plugin that sees a call when who calls, and what, is
// known, before the call waits for a limit, and before its arguments are
// decompressed and decoded.
type AfterRequestHeader interface {
	AfterRequestHeader(ctx context.Context, call *tandem.Call) error
}

// BeforeRequestBody is a plugin that is asked when a method is about to get its
// arguments: once for a unary call, for a stream before each message that it
// receives.
type BeforeRequestBody interface {
	BeforeRequestBody(ctx context.Context, call *tandem.Call) error
}

// AfterRequestBody is a plugin that sees the decoded arguments, usually a pointer:
// once for a unary call, for a stream each message that was received. It may change
// what they point to. Methods of several arguments have a [tandem.Results] of
// pointers.
type AfterRequestBody interface {
	AfterRequestBody(ctx context.Context, call *tandem.Call, args any) error
}

// BeforeResponse is a plugin that sees what is about to be answered: the reply, or
// the error, also if that is the refusal of another plugin. For a stream it sees each
// message that is sent, and at the end a nil reply with the stream's error. An error
// that it returns takes the place of the answer. It runs where the answer is encoded:
// several replies of a stream never at once.
type BeforeResponse interface {
	BeforeResponse(ctx context.Context, call *tandem.Call, reply any, err error) error
}

// AfterResponse is a plugin that is told how each call has ended, exactly once,
// however that came about, also if another plugin refused it. The answer is on its
// way then; whether it arrives nobody knows.
type AfterResponse interface {
	AfterResponse(ctx context.Context, call *tandem.Call, end tandem.Outcome)
}

// Panicked is a plugin that is told of panics of methods, interceptors and plugins, which
// the server's log has as well: what panicked, with which value (an error if the goroutine
// was ended), and the top of the stack. It runs on the goroutine that it happened on.
type Panicked interface {
	Panicked(what string, value any, stack []byte)
}

// PerMethod is a plugin that has another one for each method: asked when the method is
// registered, it returns a value with the points that apply to its calls, nil for
// none; and once for a Method without a name, which stands for all those that do not
// exist. What depends on the method need not be looked up a call then. Points of calls
// that the plugin itself implements do not apply: it may be a client's plugin, too.
type PerMethod interface {
	ForMethod(m Method) any
}

// KeepsNothing is implemented by plugins that promise to keep neither the context
// nor the call when their functions have returned. If all do, and there are no
// interceptors, [MethodReuse] goes on saving allocations.
type KeepsNothing interface {
	KeepsNothing()
}

// checkPlugins returns an error for a value that is no plugin, and for one that is there
// twice: what it does to a call it would do twice.
func checkPlugins(plugins []any) error {
	for i, p := range plugins {
		if t := reflect.TypeOf(p); t != nil && t.Kind() == reflect.Pointer && t.Elem().Size() > 0 && slices.Contains(plugins[:i], p) {
			return fmt.Errorf("%T is given twice: give WithPlugins each plugin once", p)
		}
		switch p.(type) {
		case ServiceRegistered, ConnAccepted, ConnClosed:
			continue
		}
		if !dispatch.IsPlugin(p) {
			return fmt.Errorf("%T implements no point of WithPlugins: see ServiceRegistered to Panicked", p)
		}
	}
	return nil
}
