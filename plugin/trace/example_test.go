package trace_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/trace"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func Example() {
	spans := make(chan string, 2)
	t := trace.New(trace.To(func(s *trace.Span) {
		side := "server"
		if s.Client {
			side = "client"
		}
		spans <- fmt.Sprint(side, " ", s.Method, ", inside another: ", s.Parent != [8]byte{})
	}))
	srv := server.New(server.WithPlugins(t))
	_ = srv.RegisterFunc("Math.Half", func(n int) int { return n / 2 })
	network := transport.NewMemory()
	ln, _ := network.Listen(context.Background(), "math")
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, _ := client.Dial("mem://math", client.WithTransport("mem", network), client.WithPlugins(t))
	half, err := client.Invoke[int](context.Background(), c, "Math.Half", 84)
	fmt.Println(*half, err)
	fmt.Println(<-spans)
	fmt.Println(<-spans)
	_ = c.Close()
	_ = srv.Close()
	<-served
	// Output:
	// 42 <nil>
	// server Math.Half, inside another: true
	// client Math.Half, inside another: false
}
