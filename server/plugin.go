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

// WithPlugins adds plugins: values that implement one or more of the points below, from
// [ServiceRegistered] to [Panicked]. All protocols on the port pass the same points, and so do
// streams.
//
// Incoming connections, request heads and bodies pass the plugins in the order in which they
// are given. Responses pass them in reverse order, so that the first plugin sees a call first
// and last. A call passes
//
//	BeforeRequestHeader   of every plugin
//	Intercept             of every plugin, nested
//	AfterRequestHeader    of every plugin
//	                      the limits of WithMaxConcurrency and MethodConcurrency
//	                      the interceptors of WithInterceptors
//	BeforeRequestBody     of every plugin, when the method asks for its arguments
//	AfterRequestBody      of every plugin, when they are decoded
//	                      the method
//	BeforeResponse        of every plugin, the last plugin first
//	AfterResponse         of every plugin, the last plugin first
//
// Calls of methods that do not exist, and calls that can't be made, such as those with an
// unknown codec, pass the same points except those of bodies, and end with an error. So a
// caller that a plugin refuses does not learn which methods exist. An error of a plugin refuses
// the call: the caller gets it as a [*tandem.Error], with the code PermissionDenied unless it
// has one, and the method does not run. A panic is logged and fails the call in which it
// happened, with Internal; other calls go on.
//
// Plugins apply to all methods of the server. A value that implements no point makes Serve
// fail.
func WithPlugins(plugins ...any) Option {
	return func(o *options) { o.plugins = append(o.plugins, plugins...) }
}

// ServiceRegistered is a plugin that is called for every service, and every single function,
// that is registered, before calls reach it. An error refuses the registration. It may be
// called at any time, by several goroutines at once, and may itself register methods and list
// them.
type ServiceRegistered interface {
	ServiceRegistered(r *Registration) error
}

// Registration describes a service or function before it is registered, as a whole or not at all.
type Registration struct {
	Service  string   // "" for a function whose name has no dot
	Receiver any      // the value that has the methods; nil for functions
	Methods  []Method // at least one

	aliases map[string]string
}

// Alias gives a method, or a service with all its methods, another name, as [Server.Alias]
// does, in the same registration.
func (r *Registration) Alias(alias, name string) {
	if r.aliases == nil {
		r.aliases = map[string]string{}
	}
	r.aliases[alias] = name
}

// ConnAccepted is a plugin that sees each connection before its first byte is read, and before
// the TLS handshake. It returns the connection, or one that wraps it, or an error: then the
// connection is closed. It may block without delaying other connections, but not for long:
// until it returns, the connection counts as one in its handshake.
//
// A wrapper hides what a socket can do beyond [net.Conn], which costs a little speed.
type ConnAccepted interface {
	ConnAccepted(c net.Conn) (net.Conn, error)
}

// ConnClosed is a plugin that is called exactly once when a connection has ended that its
// ConnAccepted has accepted; a plugin without ConnAccepted counts as accepting every
// connection. It is also called for connections that a later plugin refused, and for those that
// ended before their protocol was known. c is the connection that ConnAccepted was given.
// ConnClosed must not block: the goroutine that ends the connection waits for it.
type ConnClosed interface {
	ConnClosed(c net.Conn, reason error)
}

// BeforeRequestHeader is a plugin that sees a call before anything else does. The Call's
// Method, Peer and Metadata are as they arrived; the method may not exist.
type BeforeRequestHeader interface {
	BeforeRequestHeader(ctx context.Context, call *tandem.Call) error
}

// Intercepts is a plugin that wraps calls like a [tandem.Interceptor]: for code that runs
// before and after a call, or gives it another context.
type Intercepts interface {
	Intercept(next tandem.Func) tandem.Func
}

// AfterRequestHeader is a plugin that sees a call when its caller and its method are known,
// before the call waits for a limit, and before its arguments are decompressed and decoded.
type AfterRequestHeader interface {
	AfterRequestHeader(ctx context.Context, call *tandem.Call) error
}

// BeforeRequestBody is a plugin that is called before a method gets its arguments: once for a
// unary call, for a stream before each message that it receives.
type BeforeRequestBody interface {
	BeforeRequestBody(ctx context.Context, call *tandem.Call) error
}

// AfterRequestBody is a plugin that sees the decoded arguments, usually a pointer: once for a
// unary call, for a stream each message that is received. It may change what they point to. The
// arguments of a method with several are a [tandem.Results] of pointers.
type AfterRequestBody interface {
	AfterRequestBody(ctx context.Context, call *tandem.Call, args any) error
}

// BeforeResponse is a plugin that sees the response before it is encoded: the reply, or the
// error, which may be another plugin's refusal. For a stream it sees each message that is sent,
// and at the end a nil reply with the stream's error. An error that it returns replaces the
// response. It never runs for several replies of a stream at once.
type BeforeResponse interface {
	BeforeResponse(ctx context.Context, call *tandem.Call, reply any, err error) error
}

// AfterResponse is a plugin that is called exactly once when a call has ended, also if another
// plugin refused it. The response is being sent then; it may still not arrive.
type AfterResponse interface {
	AfterResponse(ctx context.Context, call *tandem.Call, end tandem.Outcome)
}

// Panicked is a plugin that is called for each panic of a method, interceptor or plugin, which
// is logged as well. It gets what panicked, the panic's value (an error if runtime.Goexit ended
// the goroutine), and the top of the stack. It runs on the goroutine that panicked.
type Panicked interface {
	Panicked(what string, value any, stack []byte)
}

// PerMethod is a plugin that supplies another plugin for each method. ForMethod is called when
// the method is registered, and returns a value with the points for its calls, or nil for none.
// It is also called once with a Method without a name, which stands for all methods that do not
// exist. So nothing that depends on the method has to be looked up for each call. Points of
// calls that the plugin itself implements are ignored: it may be a client's plugin, too.
type PerMethod interface {
	ForMethod(m Method) any
}

// KeepsNothing is implemented by plugins that promise to keep neither the context nor the call
// when their functions have returned. If all plugins implement it, and there are no
// interceptors, [MethodReuse] also reuses contexts and calls.
type KeepsNothing interface {
	KeepsNothing()
}

// checkPlugins returns an error for a value that is not a plugin, and for one that is given
// twice, as it would act on each call twice.
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
