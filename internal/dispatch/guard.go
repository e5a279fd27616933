package dispatch

import (
	"context"
	"errors"
	"runtime"

	"github.com/tandem-rpc/tandem"
)

// maxStack bounds the stack that is reported, in bytes.
const maxStack = 64 << 10

// errGoexit is reported as the value when a method ended its goroutine.
var errGoexit = errors.New("runtime.Goexit was called")

// PanicFunc is told that a method did not return: the value it panicked with
// (an error if it called [runtime.Goexit]) and the top of its stack, at most
// 64 KiB. It runs on the method's goroutine and must not panic.
type PanicFunc func(method string, value any, stack []byte)

// Guard returns f with panics turned into an error of code Internal. Neither
// the value nor the stack is in the error, which goes to the caller; report is
// told of them, unless it is nil. The methods of a [Table] are guarded.
//
// After [runtime.Goexit] there is nobody left to return to: report is told,
// and [Run] gives the caller its error.
func Guard(method string, f tandem.Func, report PanicFunc) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) (err error) {
		returned := false
		defer func() {
			if !returned {
				err = died(method, recover(), report)
			}
		}()
		err = f(ctx, call)
		returned = true
		return err
	}
}

// died reports a method that did not return and says so in an error. The value
// is nil after Goexit only: a panic with nil recovers a [runtime.PanicNilError].
func died(method string, value any, report PanicFunc) error {
	err := tandem.Errorf(tandem.Internal, "method %s panicked", method)
	if value == nil {
		value, err = errGoexit, exited(method)
	}
	if report != nil {
		stack := make([]byte, maxStack)
		report(method, value, stack[:runtime.Stack(stack, false)])
	}
	return err
}

func exited(method string) *tandem.Error {
	return tandem.Errorf(tandem.Internal, "method %s ended its goroutine", method)
}

// Run runs f and hands its error to done, exactly once and on this goroutine:
// also when f calls [runtime.Goexit] (as testing's FailNow does) and Run itself
// never returns. A loop that runs calls must then go on from its own deferred
// function, on a new goroutine.
//
// done takes the call so that one function serves many. A panic of f, which a
// guarded one has not, goes on after done.
func Run(ctx context.Context, call *tandem.Call, f tandem.Func, done func(*tandem.Call, error)) {
	returned := false
	defer func() {
		if !returned {
			done(call, exited(call.Method))
		}
	}()
	err := f(ctx, call)
	returned = true
	done(call, err)
}
