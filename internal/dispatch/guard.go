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

// PanicFunc is told that a method did not return: the value it panicked with
// (an error if it called [runtime.Goexit]) and the top of its stack, at most
// 64 KiB. It runs on the method's goroutine and must not panic.
type PanicFunc func(method string, value any, stack []byte)

// LogPanics returns a PanicFunc that writes to log; nil means slog's default
// logger, since a panic is the one thing that is not quiet by default.
func LogPanics(log *slog.Logger) PanicFunc {
	return func(method string, value any, stack []byte) {
		to := log
		if to == nil {
			to = slog.Default() // as it is now, not as it was
		}
		to.Error("method panicked", "method", method, "panic", fmt.Sprint(value), "stack", string(stack))
	}
}

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
				err = Died(method, recover(), report)
			}
		}()
		err = f(ctx, call)
		returned = true
		return err
	}
}

// Died reports a method that did not return and says so in an error. The value
// is what recover returned: nil after Goexit only, since a panic with nil
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
// FailNow does) Run never returns: it then hands an error to exited, on this
// goroutine. A loop that runs calls must go on from its own deferred function,
// on a new goroutine.
//
// exited takes the context and the call so that one function serves many. A
// panic of f, which a guarded one has not, goes on after exited.
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
