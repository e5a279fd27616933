package server_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
)

// A server reports its rate of calls to its registry, here every 10 ms.
func ExampleWithLoadReport() {
	list := registry.NewMemory()
	srv := server.New(
		server.WithRegistrar(list, tandem.Instance{ID: "a"}),
		server.WithLoadReport(10*time.Millisecond),
	)
	go srv.Serve("tcp", "127.0.0.1:0")
	defer srv.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_ = list.Watch(ctx, registry.Target{}, func(s registry.Snapshot) {
		for _, in := range s.Instances {
			if in.Load != nil {
				fmt.Println(in.ID, "calls a second:", in.Load.Rate, "running:", in.Load.InFlight)
				cancel()
			}
		}
	})
	// Output: a calls a second: 0 running: 0
}
