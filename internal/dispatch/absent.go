package dispatch

import (
	"context"

	"github.com/tandem-rpc/tandem"
)

// ErrAbsent returns the error of a call of a method that does not exist.
func ErrAbsent(call *tandem.Call) *tandem.Error {
	return &tandem.Error{Code: tandem.Unimplemented, NotExecuted: true, Message: "no method \"" + call.Method + "\" here"}
}

type refusalKey struct{}

// WithRefusal returns the context of a call that is refused: it passes the plugins and
// interceptors of its method, so that callers without credentials learn nothing else, and
// then fails with why instead of running the method.
func WithRefusal(ctx context.Context, why *tandem.Error) context.Context {
	return context.WithValue(ctx, refusalKey{}, why)
}

// Refused returns the error of [WithRefusal] in a context, or nil.
func Refused(ctx context.Context) *tandem.Error {
	why, _ := ctx.Value(refusalKey{}).(*tandem.Error)
	return why
}

// NoBody returns the Body of a call without readable arguments: Decode and Encode fail with why.
func NoBody(why error) tandem.Body { return refusingBody{why} }

type refusingBody struct{ why error }

func (n refusingBody) Decode(any) error { return n.why }

func (n refusingBody) Encode(any) error { return n.why }

func (refusingBody) Stream() tandem.MessageStream { return nil }
