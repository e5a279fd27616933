package dispatch

import "github.com/tandem-rpc/tandem"

// messages is where arguments come from and results go to. A [tandem.Body] is
// one for unary calls.
type messages interface {
	Decode(v any) error
	Encode(v any) error
}

// streamMessages takes arguments from a stream and sends results on it.
type streamMessages struct{ tandem.MessageStream }

func (s streamMessages) Decode(v any) error { return s.RecvMsg(v) }
func (s streamMessages) Encode(v any) error { return s.SendMsg(v) }

// The messages of no arguments and of no results, made once. They have no
// elements, so nothing can be written to them.
var (
	noArguments any = tandem.Results{}
	noResults   any = tandem.Args{}
)

// badArguments says that the arguments of a call did not decode, so that its
// method did not run. An error with a code keeps it.
func badArguments(call *tandem.Call, err error) error {
	return notExecuted(describe(tandem.InvalidArgument, "arguments", call, err))
}

// badResults says that the results of a call did not encode. It returns nil
// for nil.
func badResults(call *tandem.Call, err error) error {
	if err == nil {
		return nil
	}
	e := describe(tandem.Internal, "results", call, err)
	e.NotExecuted = false // it did run
	return e
}

// describe returns a copy of err that says what of which call it is about. The
// code is for errors that have none.
func describe(code tandem.Code, what string, call *tandem.Call, err error) *tandem.Error {
	e := *tandem.AsError(err)
	if e.Code == tandem.Unknown {
		e.Code = code
	}
	e.Message = what + " of " + call.Method + ": " + e.Message
	return &e
}

func notExecuted(err *tandem.Error) *tandem.Error {
	err.NotExecuted = true
	return err
}

// authored is the error that a method returned, as it is. Only a claim that
// nothing was executed is taken back: the method may be passing on an error of
// a call that it made, and it did run itself.
func authored(err error) error {
	if tandem.MayHaveExecuted(err) {
		return err
	}
	e := *tandem.AsError(err)
	e.NotExecuted = false
	return &e
}
