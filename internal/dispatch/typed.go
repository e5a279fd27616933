package dispatch

import (
	"context"
	"reflect"
	"runtime"
	"sync"

	"github.com/tandem-rpc/tandem"
)

// Unary returns the Func of a typed handler. A call uses no reflection here and
// allocates only the arguments, which the handler may keep. A nil reply without an
// error is sent as the zero Reply, in every codec alike. Unary returns nil for a
// nil f.
func Unary[Args, Reply any](f func(context.Context, *Args) (*Reply, error)) tandem.Func {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, call *tandem.Call) error {
		args := new(Args)
		if err := call.Body.Decode(args); err != nil {
			return badArguments(call, err)
		}
		reply, err := f(ctx, args)
		return answer(call, reply, err)
	}
}

// unaryReusing is [Unary] for a handler that does not keep its arguments: later calls reuse them.
func unaryReusing[Args, Reply any](f func(context.Context, *Args) (*Reply, error)) tandem.Func {
	if f == nil {
		return nil
	}
	var cleared sync.Pool // of *Args
	return func(ctx context.Context, call *tandem.Call) error {
		args, ok := cleared.Get().(*Args)
		if !ok {
			args = new(Args)
		}
		err := call.Body.Decode(args)
		if err != nil {
			err = badArguments(call, err)
		} else {
			reply, failed := f(ctx, args)
			err = answer(call, reply, failed)
		}
		var zero Args
		*args = zero
		cleared.Put(args) // not after a panic: another goroutine may hold them
		return err
	}
}

// answer encodes what a handler returned. It is small enough to be inlined.
func answer[Reply any](call *tandem.Call, reply *Reply, err error) error {
	if err != nil {
		return methodError(err)
	}
	if reply == nil {
		reply = new(Reply)
	}
	return badResults(call, call.Body.Encode(reply))
}

// Streaming returns the Func of a typed stream handler. The stream ends when
// the handler returns. It returns nil for a nil f.
func Streaming[In, Out any](f func(context.Context, *tandem.Stream[In, Out]) error) tandem.Func {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, call *tandem.Call) error {
		s := call.Body.Stream()
		if s == nil {
			return noStream(call)
		}
		return methodError(f(ctx, &tandem.Stream[In, Out]{MessageStream: s}))
	}
}

// noStream returns the error of a call of a streaming method that has no stream.
func noStream(call *tandem.Call) error {
	return notExecuted(tandem.Errorf(tandem.Internal, "call of %s has no stream", call.Method))
}

// UnaryMethod returns [Unary] of f as a Method, with its types for listings.
func UnaryMethod[Args, Reply any](name string, f func(context.Context, *Args) (*Reply, error)) Method {
	return Method{
		Name:    name,
		Func:    Unary(f),
		reusing: unaryReusing(f),
		Args:    []reflect.Type{reflect.TypeFor[Args]()},
		Results: []reflect.Type{reflect.TypeFor[Reply]()},
		Origin:  funcName(reflect.ValueOf(f)),
	}
}

// StreamingMethod returns [Streaming] of f as a Method, with its types for
// listings.
func StreamingMethod[In, Out any](name string, f func(context.Context, *tandem.Stream[In, Out]) error) Method {
	return Method{
		Name:   name,
		Kind:   tandem.Streaming,
		Func:   Streaming(f),
		In:     reflect.TypeFor[In](),
		Out:    reflect.TypeFor[Out](),
		Origin: funcName(reflect.ValueOf(f)),
	}
}

// funcName returns the full name of a function, "" for nil.
func funcName(f reflect.Value) string {
	if fn := runtime.FuncForPC(f.Pointer()); fn != nil {
		return fn.Name()
	}
	return ""
}
