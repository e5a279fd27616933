package metrics_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/metrics"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func Example() {
	m := metrics.New()
	srv := server.New(server.WithPlugins(m))
	_ = srv.RegisterFunc("Math.Half", func(n int) (int, error) {
		if n%2 == 1 {
			return 0, tandem.Errorf(tandem.OutOfRange, "%d is odd", n)
		}
		return n / 2, nil
	})
	network := transport.NewMemory()
	ln, _ := network.Listen(context.Background(), "math")
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, _ := client.Dial("mem://math", client.WithTransport("mem", network))
	for n := range 5 {
		_ = c.Call(context.Background(), "Math.Half", n, nil)
	}
	for _, s := range m.Snapshot() {
		fmt.Println(s.Side, s.Method, s.Calls(), s.Errors, s.Running, s.Latency.Sum > 0)
	}
	_ = c.Close()
	_ = srv.Close()
	<-served
	// Output:
	// server Math.Half 5 map[out of range:2] 0 true
}
