package admin

import (
	"context"
	"testing"

	"github.com/tandem-rpc/tandem"
)

// BenchmarkPass is what a call costs that is counted, at a rate at which few are timed.
func BenchmarkPass(b *testing.B) {
	a := New()
	for _, side := range []string{"", "client"} {
		name := "server"
		if side != "" {
			name = side
		}
		b.Run(name, func(b *testing.B) {
			call := &tandem.Call{Method: "Shop.Buy"}
			k := key{side, call.Method}
			a.method(k).skip.Store(63)
			next := func(context.Context, *tandem.Call) error { return nil }
			f := a.method(k).Intercept(next)
			if side != "" {
				f = a.callsOf(side).Intercept(next)
			}
			b.ReportAllocs()
			for b.Loop() {
				_ = f(b.Context(), call)
			}
		})
	}
}
