package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// one returns a client of a server with a single method, and a function that stops both.
func one[Args, Reply any](f func(context.Context, *Args) (*Reply, error), opts ...client.Option) (*client.Client, func()) {
	network := transport.NewMemory()
	srv := server.New()
	check(server.Handle(srv, "It.Does", f))
	ln, err := network.Listen(context.Background(), "it")
	check(err)
	done := make(chan error, 1)
	go func() { done <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://it", append(opts, client.WithTransport("mem", network))...)
	check(err)
	return c, func() {
		check(c.Close())
		check(srv.Close())
		<-done
	}
}

// Metadata is sent with the message, in both directions.
func ExampleMetadata() {
	c, stop := one(func(ctx context.Context, _ *string) (*string, error) {
		call := tandem.FromContext(ctx)
		call.Trailer = tandem.Metadata{"region": {"north"}}
		tenant := call.Metadata.Get("tenant")
		return &tenant, nil
	})
	defer stop()
	var trailer tandem.Metadata
	tenant, err := client.Invoke[string](context.Background(), c, "It.Does", "", client.Metadata("tenant", "acme"), client.Trailer(&trailer))
	fmt.Println(*tenant, err, trailer.Get("region"))
	// Output: acme <nil> north
}

// The deadline is sent with the request: the handler knows how much time is left, and its
// context ends with the call.
func ExampleTimeout() {
	c, stop := one(func(ctx context.Context, wait *bool) (*string, error) {
		if *wait {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		deadline, _ := ctx.Deadline()
		left := time.Until(deadline).Round(time.Minute).String()
		return &left, nil
	})
	defer stop()
	left, err := client.Invoke[string](context.Background(), c, "It.Does", false, client.Timeout(10*time.Minute))
	fmt.Println(*left, err)
	err = c.Call(context.Background(), "It.Does", true, nil, client.Timeout(20*time.Millisecond))
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// 10m0s <nil>
	// true
}

// A codec is chosen for the client or for a call; the response has the same.
func ExampleWithCodec() {
	c, stop := one(func(ctx context.Context, _ *[]byte) (*[]byte, error) {
		name := []byte(tandem.FromContext(ctx).Codec)
		return &name, nil
	}, client.WithCodec(codec.Raw()))
	defer stop()
	for _, opts := range [][]tandem.CallOption{nil, {client.Codec("json")}} {
		name, err := client.Invoke[[]byte](context.Background(), c, "It.Does", []byte{}, opts...)
		fmt.Println(string(*name), err)
	}
	// Output:
	// raw <nil>
	// json <nil>
}

// Large requests of the client, and their responses, are compressed.
func ExampleWithCompression() {
	c, stop := one(func(ctx context.Context, text *string) (*string, error) {
		answer := fmt.Sprintf("%d bytes, compressor %q", len(*text), tandem.FromContext(ctx).Compressor)
		return &answer, nil
	}, client.WithCompression(client.Compression{Usual: compress.Gzip()}))
	defer stop()
	answer, err := client.Invoke[string](context.Background(), c, "It.Does", strings.Repeat("again and ", 1000))
	fmt.Println(*answer, err)
	// Output: 10000 bytes, compressor "gzip" <nil>
}

// A call that may have been executed is retried only if it is marked idempotent; one that was
// certainly not executed needs no mark.
func ExampleIdempotent() {
	var attempts int
	c, stop := one(func(_ context.Context, _ *string) (*int, error) {
		attempts++ // one call at a time here
		if attempts%2 == 1 {
			return nil, tandem.Errorf(tandem.Unavailable, "try again")
		}
		return &attempts, nil
	}, client.WithFailMode(client.Failtry), client.WithConnections(client.Connections{Backoff: time.Millisecond, MaxBackoff: time.Millisecond}))
	defer stop()
	_, err := client.Invoke[int](context.Background(), c, "It.Does", "")
	fmt.Println(err)
	attempts = 0
	n, err := client.Invoke[int](context.Background(), c, "It.Does", "", client.Idempotent())
	fmt.Println(*n, err)
	// Output:
	// unavailable: try again
	// 2 <nil>
}

// A client finds its servers through a registry.
func ExampleWithResolver() {
	list := registry.NewMemory()
	network := transport.NewMemory()
	srv := server.New(server.WithTransport("mem", network), server.WithRegistrar(list, tandem.Instance{Zone: "north"}))
	check(server.Handle(srv, "It.Does", func(_ context.Context, n *int) (*int, error) { return n, nil }))
	done := make(chan error, 1)
	go func() { done <- srv.Serve("mem", "anywhere") }()
	c, err := client.Dial("memory://services", client.WithResolver("memory", list), client.WithTransport("mem", network))
	check(err)
	for {
		n, err := client.Invoke[int](context.Background(), c, "It.Does", 42)
		if err == nil {
			fmt.Println(*n)
			break
		} // not listed yet
	}
	check(c.Close())
	check(srv.Shutdown(context.Background()))
	fmt.Println(errors.Is(<-done, server.ErrServerClosed))
	// Output:
	// 42
	// true
}

// Clock is served by a client, for its servers to call.
type Clock struct{}

// Hour has net/rpc's shape.
func (Clock) Hour(_ struct{}, hour *int) error {
	*hour = 12
	return nil
}

func (Clock) String() string { return "noon" }

func ExampleWithService() {
	options := []client.ServiceOption{client.SkipUnsuitable()} // String can't be served
	c, stop := one(func(ctx context.Context, _ *string) (*int, error) {
		return client.Invoke[int](ctx, server.Peer(ctx), "Clock.Hour", struct{}{}, client.Codec("json"))
	}, client.WithService("Clock", Clock{}, options...))
	defer stop()
	hour, err := client.Invoke[int](context.Background(), c, "It.Does", "")
	fmt.Println(*hour, err)
	// Output: 12 <nil>
}
