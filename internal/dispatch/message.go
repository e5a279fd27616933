package dispatch

import "github.com/tandem-rpc/tandem"

// messages receives arguments and sends results. A [tandem.Body] is one for unary
// calls.
type messages interface {
	Decode(v any) error
	Encode(v any) error
}

// streamMessages receives arguments from a stream and sends results on it.
type streamMessages struct{ tandem.MessageStream }

func (s streamMessages) Decode(v any) error { return s.RecvMsg(v) }
func (s streamMessages) Encode(v any) error { return s.SendMsg(v) }

// The messages of no arguments and of no results, made once. They have no
// elements, so nothing can be written to them.
var (
	noArguments any = tandem.Results{}
	noResults   any = tandem.Args{}
)

// badArguments returns the error of a call whose arguments did not decode, so that
// its method did not run. An error with a code keeps the code.
func badArguments(call *tandem.Call, err error) error {
	return notExecuted(describe(tandem.InvalidArgument, "arguments", call, err))
}

// badResults returns the error of a call whose results did not encode; nil for nil.
func badResults(call *tandem.Call, err error) error {
	if err == nil {
		return nil
	}
	e := describe(tandem.Internal, "results", call, err)
	e.NotExecuted = false // it did run
	return e
}

// describe returns a copy of err with a message that begins with what, such as
// "arguments", and the method. code is for errors that have none.
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

// methodError returns the error that a method returned, unchanged but for NotExecuted,
// which it clears: the method did run, though it may pass on the error of another
// call.
func methodError(err error) error {
	if tandem.MayHaveExecuted(err) {
		return err
	}
	e := *tandem.AsError(err)
	e.NotExecuted = false
	return &e
}
