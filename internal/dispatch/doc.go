// Package dispatch is the method table: it turns Go methods and functions into
// [tandem.Func]s, and finds them by name. It knows no network; servers, and
// clients that are called back, put one under their sessions.
//
//	t := dispatch.New(dispatch.Config{})
//	err := t.Register(new(Arith))   // "Arith.Mul", "Arith.Divide", …
//	m := t.Lookup("Arith.Mul")
//	err = m.Func(ctx, call)
//
// # What can be served
//
// The signature decides, once, at registration. A leading [context.Context] is
// passed and never counted. Of what is left:
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
// Methods of a service that do not fit are an error that lists them, unless
// [WithSkipUnsuitable] leaves them out, or [WithHidden] each. Those without an error
// result (String, Len, Lock) do not fit unless [ForMethod] names them, so that nothing
// becomes remote by accident; [WithNetRPC] leaves net/rpc's shape only, and skips the
// others as net/rpc does. A function, which is registered on purpose, needs no error
// result.
//
// A service of Protocol Buffers has all methods of its .proto file, and its messages, if
// one of the table's codecs knows them.
//
// # What happens to a call
//
// A method that panics harms nobody else: its caller gets [tandem.Internal],
// the [Config] hears of the value and the stack. Arguments that do not decode
// are refused with [tandem.InvalidArgument] and certainly not executed. An
// error that the method returns is passed on as it is.
package dispatch
