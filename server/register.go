package server

import (
	"context"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/call"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/session"
)

// MethodOption changes how a method, or every method of a service, is served.
type MethodOption = dispatch.Option

// Hijacker is embedded by a service that replaces methods of its own with
// handlers that read the arguments and write the results themselves: its Setup
// method calls HijackProcess.
type Hijacker = dispatch.Hijacker

// Stub is what such a handler works with.
type Stub = dispatch.Stub

// MethodTimeout sets the longest time that a method may run; negative for none.
func MethodTimeout(d time.Duration) MethodOption { return dispatch.WithTimeout(d) }

// MethodConcurrency lets so many calls of a method run and so many more wait.
// Further ones are refused with ResourceExhausted and have not executed.
func MethodConcurrency(calls, queue int) MethodOption { return dispatch.WithConcurrency(calls, queue) }

// MethodMaxMessage limits the size of a method's messages, decompressed.
func MethodMaxMessage(n int) MethodOption { return dispatch.WithMaxMessage(n) }

// MethodReuse lets later calls of a method decode their arguments into the memory
// of earlier ones, which saves an allocation and clearing it. The arguments, and
// what they point to, are then the method's only until it returns: what it keeps,
// or hands to a goroutine that outlives it, it must copy. The results may refer
// to them. Streams, hijacked methods and functions that decode for themselves
// have no such arguments.
//
// The same goes for the context and the call that [tandem.FromContext] finds in
// it, with its metadata: on a server without interceptors, and whose plugins all are
// [KeepsNothing], they are another call's when the method
// has returned without an error. A context that was derived from it to end with
// it, as by [context.WithCancel], may live on.
func MethodReuse() MethodOption { return dispatch.WithReuse() }

// MethodSafe says that a method changes nothing at the server, as HTTP's GET
// (RFC 9110, section 9.2.1): HTTP clients may call it by GET, and what lies between
// them and the server may call it ahead, again, or answer from a cache.
func MethodSafe() MethodOption { return dispatch.WithSafe() }

// SkipUnsuitable registers what can be served of a service, and leaves out the methods
// that can't be, and those that the type lacks of a service of Protocol Buffers. Without
// it [Server.Register] returns an error that lists them.
func SkipUnsuitable() MethodOption { return dispatch.WithSkipUnsuitable() }

// MethodName serves a method of a service under another name than Go's. For
// use in [ForMethod].
func MethodName(name string) MethodOption { return dispatch.WithName(name) }

// MethodHidden leaves a method of a service out. For use in [ForMethod].
func MethodHidden() MethodOption { return dispatch.WithHidden() }

// ForMethod applies options to one method of a service, by its name in Go.
func ForMethod(goName string, opts ...MethodOption) MethodOption {
	return dispatch.ForMethod(goName, opts...)
}

// Register serves the exported methods of rcvr under the name of its type, as
// net/rpc does. Besides net/rpc's shape
//
//	func (t *T) Method(args *A, reply *R) error
//
// a method may take a leading context, take and return any number of values,
// or take a [*tandem.Stream]. If the last parameter is a pointer and the sole
// result an error, the shape is net/rpc's; otherwise all parameters are
// arguments and all results but the error are results.
//
// Every exported method must be of such a shape, promoted ones included: the error lists
// those that are not, unless [SkipUnsuitable] leaves them out. A service of Protocol
// Buffers, registered under its full name, must have all methods of its .proto file, with
// its messages, if the server knows them: by the codec of package codec/protobuf and the
// generated code. A service for grpc-go is refused.
func (s *Server) Register(rcvr any, opts ...MethodOption) error {
	return s.table.Register(rcvr, opts...)
}

// RegisterName is Register under a name of your choice.
func (s *Server) RegisterName(name string, rcvr any, opts ...MethodOption) error {
	return s.table.RegisterName(name, rcvr, opts...)
}

// RegisterFunc serves a function, of any shape that a method may have, as
// "Service.Method".
func (s *Server) RegisterFunc(name string, f any, opts ...MethodOption) error {
	return s.table.RegisterFunc(name, f, opts...)
}

// Alias serves a method, or all methods of a service, under another name too.
func (s *Server) Alias(alias, name string) error { return s.table.Alias(alias, name) }

// Methods returns the names of all methods, sorted, without aliases.
func (s *Server) Methods() []string {
	var names []string
	for _, m := range s.table.Methods() {
		names = append(names, m.Name)
	}
	return names
}

// Handle serves a typed function. It costs no reflection per call.
func Handle[Args, Reply any](s *Server, name string, f func(context.Context, *Args) (*Reply, error), opts ...MethodOption) error {
	return s.table.Add(dispatch.UnaryMethod(name, f), opts...)
}

// HandleStream serves a typed stream. The stream ends when f returns, with f's
// error as its status.
func HandleStream[In, Out any](s *Server, name string, f func(context.Context, *tandem.Stream[In, Out]) error, opts ...MethodOption) error {
	return s.table.Add(dispatch.StreamingMethod(name, f), opts...)
}

// Peer returns a caller for methods that the calling client itself serves, or
// nil outside a handler and for clients of other protocols. It works as long as the
// client is connected.
func Peer(ctx context.Context) tandem.Caller {
	ses := session.FromContext(ctx)
	if ses == nil {
		return nil
	}
	codec := ""
	if served := tandem.FromContext(ctx); served != nil {
		codec = served.Codec
	}
	return &call.Caller{Session: ses, Codec: codec, Timeout: peerTimeout}
}

const peerTimeout = 5 * time.Second // as a client's default
