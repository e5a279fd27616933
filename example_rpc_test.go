package tandem_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// connect serves on an in-memory network and returns a client, and a function that
// ends both.
func connect(srv *server.Server, opts ...client.Option) (c *client.Client, end func()) {
	network := transport.NewMemory()
	ln, err := network.Listen(context.Background(), "example")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err = client.Dial("mem://example", append(opts, client.WithTransport("mem", network))...)
	check(err)
	return c, func() {
		check(c.Close())
		check(srv.Close())
		<-served
	}
}

// check ends an example that can't go on.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Details say what is wrong in a form for programs, as the message does for people.
func ExampleError_WithDetail() {
	srv := server.New()
	check(server.Handle(srv, "Shop.Order", func(_ context.Context, count *int) (*int, error) {
		if *count < 1 {
			return nil, tandem.Errorf(tandem.InvalidArgument, "%d pieces can't be ordered", *count).WithDetail("field", []byte("count"))
		}
		return count, nil
	}))
	c, end := connect(srv)
	defer end()
	err := c.Call(context.Background(), "Shop.Order", 0, nil)
	if e, ok := errors.AsType[*tandem.Error](err); ok {
		fmt.Println(e.Remote, e.Message)
		for _, d := range e.Details {
			fmt.Printf("%s: %s\n", d.Type, d.Value)
		}
	}
	// Output:
	// true 0 pieces can't be ordered
	// field: count
}

// A Func can be a handler: it decodes and encodes messages itself. This one is a
// gateway that passes messages on without decoding them.
func ExampleFunc() {
	behind := server.New()
	check(server.Handle(behind, "Shop.Price", func(_ context.Context, item *string) (*int, error) {
		price := 10 * len(*item)
		return &price, nil
	}))
	back, endBack := connect(behind)
	defer endBack()

	forward := func(ctx context.Context, call *tandem.Call) error {
		var args, reply json.RawMessage
		if err := call.Body.Decode(&args); err != nil {
			return err
		}
		if err := back.Call(ctx, call.Method, args, &reply, client.Codec("json")); err != nil {
			return err
		}
		return call.Body.Encode(reply)
	}
	gateway := server.New()
	check(gateway.RegisterFunc("Shop.Price", tandem.Func(forward)))
	c, end := connect(gateway)
	defer end()
	price, err := client.Invoke[int](context.Background(), c, "Shop.Price", "tea", client.Codec("json"))
	fmt.Println(*price, err)
	// Output: 30 <nil>
}

// Messages of one MessageStream may differ in type.
func ExampleMessageStream() {
	srv := server.New()
	check(server.HandleStream(srv, "Any.Echo", func(_ context.Context, s *tandem.Stream[json.RawMessage, json.RawMessage]) error {
		for m, err := range s.All() {
			if err != nil {
				return err
			}
			if err := s.Send(m); err != nil {
				return err
			}
		}
		return nil
	}))
	c, end := connect(srv)
	defer end()

	var s tandem.MessageStream
	s, err := c.OpenStream(context.Background(), "Any.Echo", client.Codec("json"))
	check(err)
	defer s.Close()
	check(s.SendMsg("the answer"))
	check(s.SendMsg(42))
	check(s.CloseSend())
	var text string
	var number int
	fmt.Println(s.RecvMsg(&text), text)
	fmt.Println(s.RecvMsg(&number), number)
	fmt.Println(s.RecvMsg(nil))
	<-s.Context().Done() // it ends with the stream
	// Output:
	// <nil> the answer
	// <nil> 42
	// EOF
}
