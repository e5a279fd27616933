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

// Stub is one call of a hijacked method: its context, arguments and results.
type Stub = dispatch.Stub

// MethodTimeout sets the longest time that a method may run; negative for none, 0 for the
// server's [WithTimeout].
func MethodTimeout(d time.Duration) MethodOption { return dispatch.WithTimeout(d) }

// MethodConcurrency limits a method to that many running calls, and that many waiting ones in
// its queue. Further calls are refused with ResourceExhausted and have not executed.
func MethodConcurrency(calls, queue int) MethodOption { return dispatch.WithConcurrency(calls, queue) }

// MethodMaxMessage limits the size of a method's messages, decompressed.
func MethodMaxMessage(n int) MethodOption { return dispatch.WithMaxMessage(n) }

// MethodReuse lets later calls of a method decode their arguments into the memory of earlier
// ones, which saves an allocation and clearing it. The arguments, and what they point to,
// belong to the method only until it returns: what it keeps, or hands to a goroutine that
// outlives it, it must copy. The results may refer to them. Streams, hijacked methods and
// functions that decode for themselves have no such arguments.
//
// The same holds for the context, for the call that [tandem.FromContext] finds in it, and for
// the call's metadata. On a server without interceptors, whose plugins all implement
// [plugin.KeepsNothing], a later call uses them again when the method has returned without an error. A
// context derived from it to end with it, as by [context.WithCancel], may be used longer.
func MethodReuse() MethodOption { return dispatch.WithReuse() }

// MethodSafe declares that a method changes nothing at the server, like HTTP's GET (RFC 9110,
// section 9.2.1): HTTP clients may call it by GET, and browsers, proxies and caches on the way
// may prefetch it, repeat it, or answer from a cache.
func MethodSafe() MethodOption { return dispatch.WithSafe() }

// SkipUnsuitable makes [Server.Register] leave out the methods of a service that can't be
// served, and accept a type that lacks methods of its Protocol Buffers service. Without it
// Register returns an error that lists both.
func SkipUnsuitable() MethodOption { return dispatch.WithSkipUnsuitable() }

// MethodName serves a method of a service under another name than Go's. For
// use in [ForMethod].
func MethodName(name string) MethodOption { return dispatch.WithName(name) }

// MethodHidden excludes a method of a service from being served. For use in [ForMethod].
func MethodHidden() MethodOption { return dispatch.WithHidden() }

// ForMethod applies options to one method of a service, by its name in Go.
func ForMethod(goName string, opts ...MethodOption) MethodOption {
	return dispatch.ForMethod(goName, opts...)
}

// Register serves the exported methods of rcvr under the name of its type, as net/rpc does.
// Besides net/rpc's shape
//
//	func (t *T) Method(args *A, reply *R) error
//
// a method may take a leading context, take and return any number of values, or take a
// [*tandem.Stream]. If the last parameter is a pointer and the sole result an error, the shape
// is net/rpc's; otherwise all parameters are arguments and all results but the error are
// results.
//
// Every exported method must be of such a shape, promoted ones included: the error lists those
// that are not, unless [SkipUnsuitable] leaves them out. A service of Protocol Buffers,
// registered under its full name, must have all methods of its .proto file, with the file's
// messages; this is checked if the server has the codec of package codec/protobuf and the
// program the generated code. A service for grpc-go is refused.
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

// RegisterMethod serves f as the method that m describes: a tandem.Func of either kind, which reads
// and writes its messages by the call's Body. Of m it uses Name, Kind, Safe and the types, which say
// what f decodes and encodes: listings, reflection and checks against .proto files need them. They
// may be nil. It is for packages that generate methods from descriptions; see also [Handle].
func (s *Server) RegisterMethod(m *Method, f tandem.Func, opts ...MethodOption) error {
	return s.table.Add(dispatch.Method{
		Name: m.Name, Kind: m.Kind, Safe: m.Safe, Func: f,
		Args: m.Args, Results: m.Results, In: m.In, Out: m.Out,
	}, opts...)
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
