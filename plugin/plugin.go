// Package plugin (stable) declares the points at which plugins see, change or refuse calls, on
// servers and on clients.
//
// A plugin is a value that implements one or more of the interfaces of this package. A server or
// a client calls it at these points and at no others. Its options WithPlugins take plugins:
//
//	srv := server.New(server.WithPlugins(limits, log))
//	c, err := client.Dial(target, client.WithPlugins(credentials, log))
//
// What comes in to a server, and what a client sends, passes the plugins in the order in which
// they are given. Responses pass them in reverse order, so that the first plugin sees a call
// first and last. All protocols pass the same points, and so do streams and one-way calls.
//
// # The points of a server
//
//	registration  ServiceRegistered     may refuse it, or add aliases
//
//	connection    ConnAccepted          before the TLS handshake; may wrap or refuse it
//	              ConnClosed            exactly once, the last plugin first
//
//	call          BeforeRequestHeader   of every plugin
//	              Intercept             of every plugin, nested
//	              AfterRequestHeader    of every plugin
//	                                    the limits of WithMaxConcurrency and MethodConcurrency
//	                                    the interceptors of WithInterceptors
//	              BeforeRequestBody     when the method asks for its arguments
//	              AfterRequestBody      when they are decoded
//	                                    the method
//	              BeforeResponse        before the reply is encoded, the last plugin first
//	              AfterResponse         exactly once, the last plugin first
//
// [Panicked] is called for panics, and [PerMethod] returns a plugin for each method when it is
// registered. For a stream, the points of the body and BeforeResponse are called for each
// message, and BeforeResponse once more at the end, without one.
//
// Calls of methods that do not exist, and calls that can't be made, such as those with an
// unknown codec, pass the same points except those of bodies, and end with an error. So a
// caller that a plugin refuses does not learn which methods exist.
//
// # The points of a client
//
//	connection  Connected              after the TLS handshake; may wrap or refuse it
//
//	call        BeforeCall             once; then the arguments are encoded
//	            Intercept              once, nested; then the interceptors of WithInterceptors
//	                                   the fail mode, which makes attempts; for each
//	            InterceptAttempt         nested; then those of WithAttemptInterceptors
//	            BeforeSelect             before an instance is chosen
//	            BeforeRequest            when it is chosen, before the request is written
//	            AfterRequest             when the request is queued to be written, or can't be
//	            BeforeResponseHeader     when a response has come, the last plugin first
//	            AfterResponseHeader      when it is known how the attempt ended, the last first
//	            BeforeResponseBody     before the reply is decoded, the last plugin first
//	            AfterResponseBody      when it is decoded, the last plugin first
//	            AfterCall              exactly once, the last plugin first
//
// For a stream, the points of the body are called for each message that is received. Attempts
// may run in parallel, each with its own copy of the Call.
//
// # Errors and panics
//
// An error of a plugin fails the call, or the attempt, which the fail mode may then make
// elsewhere if the code allows it. The caller gets the error as a [*tandem.Error].
//
//   - At the points of the request, the error says that the call was not executed, and has the
//     code PermissionDenied if it has none.
//   - At the points of the response, the error replaces that of the call, if there is one; nil
//     leaves it. It can't change whether the call may have been executed.
//   - An error of Intercept is passed on as it is.
//
// A panic is logged and fails the call in which it happened, with Internal; other calls go on. A
// panic at a point that returns no error does not fail the call.
package plugin

import "github.com/tandem-rpc/tandem"

// Intercepts is a plugin of servers and clients that wraps calls like a [tandem.Interceptor]:
// for code that runs before and after a call, or gives it another context.
type Intercepts interface {
	Intercept(next tandem.Func) tandem.Func
}

// KeepsNothing is implemented by plugins that promise to keep neither the context nor the call
// when their functions have returned, and to make no attempts of their own. If all plugins of a
// client promise it, and it has no interceptors, the memory of a call is used again for later
// calls. On a server this also holds for the contexts and calls of methods that allow it, by
// server.MethodReuse.
type KeepsNothing interface {
	KeepsNothing()
}
