package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// ready returns an in-memory network on which two servers, a and b, run, and a function that
// stops them. Each has the methods Server.Name and Text.Split.
func ready() (network *transport.Memory, stop func()) {
	network = transport.NewMemory()
	var servers []*server.Server
	done := make(chan error, 2)
	for _, name := range []string{"a", "b"} {
		srv := server.New(server.WithTransport("mem", network))
		servers = append(servers, srv)
		check(server.Handle(srv, "Server.Name", func(context.Context, *string) (*string, error) { return &name, nil }))
		check(server.HandleStream(srv, "Text.Split", split))
		check(server.HandleStream(srv, "Text.Join", join))
		ln, err := network.Listen(context.Background(), name)
		check(err)
		go func() { done <- srv.ServeListener(ln) }()
	}
	return network, func() {
		for _, srv := range servers {
			check(srv.Close())
			<-done
		}
	}
}

func split(_ context.Context, s *tandem.Stream[string, string]) error {
	text, err := s.Recv()
	if err != nil {
		return err
	}
	for word := range strings.FieldsSeq(*text) {
		if err := s.Send(&word); err != nil {
			return err
		}
	}
	return nil
}

func join(_ context.Context, s *tandem.Stream[string, string]) error {
	var words []string
	for word, err := range s.All() {
		if err != nil {
			return err
		}
		words = append(words, *word)
	}
	text := strings.Join(words, " ")
	return s.Send(&text)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func ExampleDial() {
	network, stop := ready()
	defer stop()
	c, err := client.Dial("mem://a", client.WithTransport("mem", network))
	check(err)
	defer c.Close()
	var name string
	err = c.Call(context.Background(), "Server.Name", "", &name)
	fmt.Println(name, err)
	// Output: a <nil>
}

func ExampleInvoke() {
	network, stop := ready()
	defer stop()
	c, err := client.Dial("mem://b", client.WithTransport("mem", network))
	check(err)
	defer c.Close()
	name, err := client.Invoke[string](context.Background(), c, "Server.Name", "", client.Codec("json"), client.Timeout(time.Second))
	fmt.Println(*name, err)
	// Output: b <nil>
}

func ExampleMethod() {
	network, stop := ready()
	defer stop()
	c, err := client.Dial("mem://a", client.WithTransport("mem", network))
	check(err)
	defer c.Close()
	name := client.Method[string, string](c, "Server.Name")
	question := "who are you?"
	answer, err := name(context.Background(), &question)
	fmt.Println(*answer, err)
	// Output: a <nil>
}

func ExampleClient_Go() {
	network, stop := ready()
	defer stop()
	c, err := client.Dial("mem://a", client.WithTransport("mem", network))
	check(err)
	defer c.Close()
	var name string
	call := <-c.Go(context.Background(), "Server.Name", "", &name, nil).Done
	fmt.Println(name, call.Error)
	// Output: a <nil>
}

func ExampleServerStream() {
	network, stop := ready()
	defer stop()
	c, err := client.Dial("mem://a", client.WithTransport("mem", network))
	check(err)
	defer c.Close()
	text := "one two three"
	words, err := client.ServerStream[string, string](context.Background(), c, "Text.Split", &text)
	check(err)
	for word, err := range words.All() {
		fmt.Println(*word, err)
	}
	// Output:
	// one <nil>
	// two <nil>
	// three <nil>
}

func ExampleClientStream() {
	network, stop := ready()
	defer stop()
	c, err := client.Dial("mem://a", client.WithTransport("mem", network))
	check(err)
	defer c.Close()
	words, err := client.ClientStream[string, string](context.Background(), c, "Text.Join")
	check(err)
	for _, word := range []string{"to", "be", "or", "not"} {
		check(words.Send(&word))
	}
	text, err := client.CloseAndRecv(words)
	fmt.Println(*text, err)
	// Output: to be or not <nil>
}

func ExampleStream() {
	network, stop := ready()
	defer stop()
	c, err := client.Dial("mem://a", client.WithTransport("mem", network))
	check(err)
	defer c.Close()
	s, err := client.Stream[string, string](context.Background(), c, "Text.Split")
	check(err)
	text := "hello"
	check(s.Send(&text))
	word, err := s.Recv()
	fmt.Println(*word, err)
	_, err = s.Recv()
	fmt.Println(errors.Is(err, io.EOF))
	// Output:
	// hello <nil>
	// true
}

// The calls of one client go to both servers in turn, and after b has stopped to a.
func ExampleWithFailMode() {
	network, stop := ready()
	defer stop()
	c, err := client.Dial("static://a,b?transport=mem",
		client.WithTransport("mem", network),
		client.WithBalancer(balance.RoundRobin()),
		client.WithFailMode(client.Failover),
		client.WithRetries(3))
	check(err)
	defer c.Close()
	seen := map[string]bool{}
	for len(seen) < 2 {
		name, err := client.Invoke[string](context.Background(), c, "Server.Name", "", client.Idempotent())
		check(err)
		seen[*name] = true
	}
	fmt.Println(seen)
	// Output: map[a:true b:true]
}

// The caller of a one-way call does not learn how it ended.
func ExampleClient_Notify() {
	lines := make(chan string)
	c, stop := one(func(_ context.Context, line *string) (*string, error) {
		lines <- *line
		return nil, tandem.Errorf(tandem.DataLoss, "the caller will not learn this")
	})
	defer stop()
	fmt.Println(c.Notify(context.Background(), "It.Does", "the door is open"))
	fmt.Println(<-lines)
	// Output:
	// <nil>
	// the door is open
}

func ExampleWithInterceptors() {
	network, stop := ready()
	defer stop()
	count := 0
	counting := func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			count++
			return next(ctx, call)
		}
	}
	c, err := client.Dial("mem://a", client.WithTransport("mem", network), client.WithInterceptors(counting))
	check(err)
	defer c.Close()
	for range 3 {
		check(c.Call(context.Background(), "Server.Name", "", nil))
	}
	fmt.Println(count)
	// Output: 3
}
