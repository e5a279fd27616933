package dispatch

import (
	"context"

	"github.com/tandem-rpc/tandem"
)

// Absent returns what is called in place of methods that do not exist, nil if no plugin
// wants to see such calls. It fails them with the error of [ErrAbsent], or the one that
// [WithAbsent] has put into the context.
func Absent(plugins []any, report PanicFunc) *Method {
	points := PointsOf(plugins, Description{})
	if points == nil {
		return nil
	}
	pass := points.Wrap(func(ctx context.Context, call *tandem.Call) error {
		if why, ok := ctx.Value(absentKey{}).(*tandem.Error); ok {
			return why
		}
		return ErrAbsent(call)
	}, report)
	return &Method{Func: func(ctx context.Context, call *tandem.Call) error {
		call.Body = nothing{ErrAbsent(call)}
		return pass(ctx, call)
	}}
}

// ErrAbsent returns the error of a call of a method that does not exist.
func ErrAbsent(call *tandem.Call) *tandem.Error {
	return &tandem.Error{Code: tandem.Unimplemented, NotExecuted: true, Message: "no method \"" + call.Method + "\" here"}
}

type absentKey struct{}

// WithAbsent returns a context for a call of a method that does not exist, which fails with
// that error unless a plugin has another.
func WithAbsent(ctx context.Context, why *tandem.Error) context.Context {
	return context.WithValue(ctx, absentKey{}, why)
}

// nothing is the Body of a call of a method that does not exist: nobody knows what its
// arguments are.
type nothing struct{ why error }

func (n nothing) Decode(any) error { return n.why }

func (n nothing) Encode(any) error { return n.why }

func (nothing) Stream() tandem.MessageStream { return nil }
