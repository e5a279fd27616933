package admin

import (
	"context"
	"net"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
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

// passing is a plugin that does nothing, and so costs what every plugin does.
type passing struct{}

func (passing) KeepsNothing() {}
func (passing) Intercept(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error { return next(ctx, call) }
}

// BenchmarkServer is a call over TCP by many callers: without a plugin, with one that does
// nothing, and counted.
func BenchmarkServer(b *testing.B) {
	for name, p := range map[string]any{"none": nil, "passing": passing{}, "admin": New()} {
		b.Run(name, func(b *testing.B) {
			var opts []server.Option
			if p != nil {
				opts = append(opts, server.WithPlugins(p))
			}
			srv := server.New(opts...)
			if a, ok := p.(*Admin); ok {
				if err := a.Register(srv); err != nil {
					b.Fatal(err)
				}
			}
			if err := server.Handle(srv, "Shop.Buy", func(_ context.Context, o *[]byte) (*[]byte, error) { return o, nil }, server.MethodReuse()); err != nil {
				b.Fatal(err)
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- srv.ServeListener(ln) }()
			c, err := client.Dial("tcp://"+ln.Addr().String(), client.WithCodec(codec.Raw()))
			if err != nil {
				b.Fatal(err)
			}
			message := make([]byte, 100)
			b.SetParallelism(50)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				reply := make([]byte, 0, 200)
				for pb.Next() {
					if err := c.Call(b.Context(), "Shop.Buy", &message, &reply); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			_ = c.Close()
			_ = srv.Close()
			<-done
		})
	}
}
