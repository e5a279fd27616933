package server_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// A server refuses calls that could not end in time, which needs no option. Here it is given
// constants with which one call runs and one waits, so that the third is refused.
func ExampleServer_Overload() {
	srv := server.New(
		server.WithOverloadControl(server.OverloadConfig{FirstLimit: 1, Calls: 1}),
		server.WithTrustedCriticality(func(*tandem.Peer) bool { return true }),
	)
	began, finish := make(chan bool, 2), make(chan bool)
	check(server.Handle(srv, "Report.Make", func(ctx context.Context, year *int) (*string, error) {
		began <- true
		<-finish
		text := fmt.Sprintf("%d, %s", *year, tandem.FromContext(ctx).Metadata.Get(tandem.CriticalityKey))
		return &text, nil
	}, server.MethodConcurrency(100, 0)))
	network := transport.NewMemory()
	_, stop := startOn(network, srv)
	defer stop()
	c, err := client.Dial("mem://example", client.WithTransport("mem", network),
		client.WithFailMode(client.Failfast), client.WithThrottle(&client.Throttle{Sent: 3}))
	check(err)
	defer c.Close()

	year, made := 2026, make(chan string)
	for _, class := range []tandem.Criticality{tandem.Normal, tandem.Critical} {
		go func() {
			var text string
			check(c.Call(context.Background(), "Report.Make", &year, &text, client.Criticality(class)))
			made <- text
		}()
		if class == tandem.Normal {
			<-began
		}
	}
	for srv.Overload().Waiting == 0 {
		time.Sleep(time.Millisecond) // until the second waits
	}
	err = c.Call(context.Background(), "Report.Make", &year, nil, client.Criticality(tandem.Sheddable))
	fmt.Println("the third:", tandem.CodeOf(err))
	show := func(state server.OverloadState) {
		full := server.OverloadRefusals{Full: 1}
		fmt.Println("waiting:", state.Waiting, "refused since the queue was full:", state.Refused == full)
		expected := server.MethodLoad{Name: "Report.Make", Running: 1, Limit: 1, Waiting: 1}
		fmt.Println("as expected:", len(state.Methods) == 1 && state.Methods[0] == expected)
	}
	show(srv.Overload())
	for range 2 {
		finish <- true
		fmt.Println(<-made)
	}

	plain := server.New(server.WithoutOverloadControl())
	fmt.Println("without:", plain.Overload().Methods == nil)

	// Output:
	// the third: resource exhausted
	// waiting: 1 refused since the queue was full: true
	// as expected: true
	// 2026, normal
	// 2026, critical
	// without: true
}
