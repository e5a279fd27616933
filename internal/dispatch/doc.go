// Package dispatch is the method table: it turns Go methods and functions into
// [tandem.Func]s, and finds them by name. It does not use the network; servers, and
// clients that a server calls, pass a table to their sessions.
//
//	t := dispatch.New(dispatch.Config{})
//	err := t.Register(new(Arith))   // "Arith.Mul", "Arith.Divide", …
//	m := t.Lookup("Arith.Mul")
//	err = m.Func(ctx, call)
//
// # What can be served
//
// The signature decides, once, at registration. A leading [context.Context] is
// passed and never counted. The rest of the signature may be:
//
//	func(args T, reply *R) error            net/rpc's shape, T may be a pointer
//	func(a A, b B) (R1, R2, error)          any arguments, any results
//	func(s *tandem.Stream[In, Out]) error   a stream
//	func(*tandem.Call) error                after a context: a tandem.Func
//
// Exactly two parameters, the second a pointer and error the sole result, are
// net/rpc's shape. In every other signature all parameters are arguments, and
// all results but a last error are results. A variadic signature is refused,
// as are types that no codec can carry: functions, channels, and interfaces
// with methods among the arguments.
//
// The message of exactly one argument (or result) is the value itself; that of
// none or several is a [tandem.Args], received as [tandem.Results]. An argument
// declared as *T is never nil. A sole result that is a nil pointer is sent as
// the zero value, since most codecs have no nil; several results keep theirs.
//
// A stream may have arguments and results beside it: the arguments are the
// first message received, the results the last one sent.
//
// If methods of a service can't be served, registration fails with an error that lists
// them, unless [WithSkipUnsuitable] leaves them out, or [WithHidden] leaves out each.
// Methods without an error result (String, Len, Lock) can't be served unless [ForMethod]
// names them, so that no method becomes remote by accident. [WithNetRPC] serves net/rpc's
// shape only, and skips the others as net/rpc does. A function needs no error result, as it
// is registered on purpose.
//
// A service of Protocol Buffers must have all methods of its .proto file, with their
// messages, if one of the table's codecs knows them.
//
// # What happens to a call
//
// A method that panics affects no other call: its caller gets [tandem.Internal], and
// [Config].OnPanic gets the value and the stack. A call whose arguments do not decode is
// refused with [tandem.InvalidArgument], and known not to be executed. An error that the
// method returns is passed on as it is.
package dispatch
