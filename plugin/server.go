package plugin

import (
	"context"
	"net"
	"reflect"

	"github.com/tandem-rpc/tandem"
)

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

	// Aliases are further names of the methods, or of the service with all its methods: for each
	// alias the name that it stands for. nil means none; [Registration.Alias] adds to them.
	Aliases map[string]string
}

// Alias gives a method, or a service with all its methods, another name, in the same
// registration.
func (r *Registration) Alias(alias, name string) {
	if r.Aliases == nil {
		r.Aliases = map[string]string{}
	}
	r.Aliases[alias] = name
}

// Method describes a method of a server to plugins, protocols and listings. What it refers to
// must not be changed.
type Method struct {
	Name       string      // "Service.Method", not an alias; "" stands for methods that do not exist
	Kind       tandem.Kind // Unary or Streaming
	MaxMessage int         // bytes of the largest request
	Safe       bool        // a call changes nothing, and may be repeated

	// The types, pointers removed, as far as they are known: not for a method that is a
	// tandem.Func.

	Args    []reflect.Type // types of the arguments
	Results []reflect.Type // types of the results, without the error
	In, Out reflect.Type   // types of a stream's messages; nil for others
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
// error, which may be another plugin's refusal. A reply that package once repeats is a
// *tandem.Encoded. For a stream it sees each message that is sent,
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

// Panicked is a plugin that is called for each panic of a method, interceptor or plugin of a
// server, which is logged as well. It gets what panicked, the panic's value (an error if
// runtime.Goexit ended the goroutine), and the top of the stack. It runs on the goroutine that
// panicked.
type Panicked interface {
	Panicked(what string, value any, stack []byte)
}

// PerMethod is a plugin that supplies another plugin for each method of a server. ForMethod is
// called when the method is registered, and returns a value with the points for its calls, or
// nil for none. It is also called once with a Method without a name, which stands for all
// methods that do not exist. So nothing that depends on the method has to be looked up for each
// call. Points of calls that the plugin itself implements are ignored: it may be a client's
// plugin, too.
type PerMethod interface {
	ForMethod(m Method) any
}
