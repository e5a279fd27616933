package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"

	"github.com/tandem-rpc/tandem"
)

// maxStack bounds the stack that is reported, in bytes.
const maxStack = 64 << 10

// errGoexit is reported as the value when a method ended its goroutine.
var errGoexit = errors.New("runtime.Goexit was called")

// PanicFunc is called when a method did not return, with the value that it panicked
// with (an error if it called [runtime.Goexit]) and the top of its stack, at most
// 64 KiB. It runs on the method's goroutine and must not panic.
type PanicFunc func(method string, value any, stack []byte)

// LogPanics returns a PanicFunc that writes to log; nil means slog's default
// logger, since only panics are logged by default.
func LogPanics(log *slog.Logger) PanicFunc {
	return func(method string, value any, stack []byte) {
		to := log
		if to == nil {
			to = slog.Default() // the default at the time of the panic
		}
		to.Error("method panicked", "method", method, "panic", fmt.Sprint(value), "stack", string(stack))
	}
}

// Guard returns f with panics turned into an error of code Internal. Neither
// the value nor the stack is in the error, which goes to the caller; report, unless
// it is nil, is called with them. The methods of a [Table] are guarded.
//
// After [runtime.Goexit] Guard can't return an error: report is called, and [Run]
// makes the caller's error.
func Guard(method string, f tandem.Func, report PanicFunc) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) (err error) {
		returned := false
		defer func() {
			if !returned {
				err = Died(method, recover(), report)
			}
		}()
		err = f(ctx, call)
		returned = true
		return err
	}
}

// Died calls report for a method that did not return, and returns the error of its
// call. value is what recover returned: nil only after Goexit, since a panic with nil
// recovers a [runtime.PanicNilError].
func Died(method string, value any, report PanicFunc) error {
	err := tandem.Errorf(tandem.Internal, "method %s panicked", method)
	if value == nil {
		value, err = errGoexit, ended(method)
	}
	if report != nil {
		stack := make([]byte, maxStack)
		report(method, value, stack[:runtime.Stack(stack, false)])
	}
	return err
}

func ended(method string) *tandem.Error {
	return tandem.Errorf(tandem.Internal, "method %s ended its goroutine", method)
}

// Run runs f and returns its error. When f calls [runtime.Goexit] (as testing's
// FailNow does) Run does not return: it calls exited with an error, on this
// goroutine. A loop that runs calls must go on from its own deferred function, on a
// new goroutine.
//
// exited gets the context and the call, so that one function serves all calls. A
// panic of f, if f is not guarded, continues after exited.
func Run(ctx context.Context, call *tandem.Call, f tandem.Func, exited func(context.Context, *tandem.Call, error)) error {
	returned := false
	defer func() {
		if !returned {
			exited(ctx, call, ended(call.Method))
		}
	}()
	err := f(ctx, call)
	returned = true
	return err
}
