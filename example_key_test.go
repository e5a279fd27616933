package tandem_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// keep is an interceptor that keeps the last answer and repeats it for the same key, which package
// once does with care. It says so by Keyed: otherwise the server refuses calls with a key.
func keep(answers map[string][]byte) tandem.Interceptor {
	return func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			if !call.IsKeyed() {
				return next(ctx, call)
			}
			fmt.Println(call.Metadata.Values(tandem.AttemptsKey), call.HasAttempts(tandem.AttemptsAlone), call.HasAttempts(tandem.AttemptsAgain))
			key := call.Metadata.Get(tandem.KeyKey) + " " + call.Metadata.Get(tandem.FingerprintKey)
			if kept, ok := answers[key]; ok {
				return call.Body.Encode(&tandem.Encoded{Message: kept})
			}
			recorded := &encoding{Body: call.Body}
			call.Body, call.Keyed = recorded, true
			err := next(ctx, call)
			answers[key] = recorded.message
			return err
		}
	}
}

// encoding is a Body that keeps how the response is encoded.
type encoding struct {
	tandem.Body
	message []byte
}

func (b *encoding) Encode(v any) error {
	e := &tandem.Encoded{Value: v}
	err := b.Body.Encode(e)
	b.message = e.Message
	return err
}

func ExampleEncoded() {
	network := transport.NewMemory()
	srv := server.New(server.WithTransport("mem", network), server.WithInterceptors(keep(map[string][]byte{})))
	runs := 0
	check(srv.RegisterFunc("Test.Run", func() int { runs++; return runs }))
	ln, err := network.Listen(context.Background(), "a")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://a", client.WithTransport("mem", network))
	check(err)
	for _, key := range []string{"a", "a", "b"} {
		var run int
		check(c.Call(context.Background(), "Test.Run", tandem.Args{}, &run, client.Key(key)))
		fmt.Println(key, "run", run)
	}
	check(c.Close())
	check(srv.Close())
	<-served
	// Output:
	// [alone] true false
	// a run 1
	// [alone] true false
	// a run 1
	// [alone] true false
	// b run 2
}
