package server_test

import (
	"context"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// A server shows its connections, the calls that run or wait, the longest first, and its limits of
// running calls.
func ExampleServer_Running() {
	srv := server.New(server.WithMaxConcurrency(1, 10))
	finish := make(chan bool)
	check(server.Handle(srv, "Report.Make", func(context.Context, *int) (*int, error) {
		<-finish
		return new(0), nil
	}))
	c, stop := start(srv)
	defer stop()
	made := make(chan error)
	for i := range 2 {
		go func() { made <- c.Call(context.Background(), "Report.Make", 2026, nil, client.Timeout(time.Minute)) }()
		for len(srv.Running(10)) <= i || i == 1 && srv.Running(10)[1].Waits == "" {
			time.Sleep(time.Millisecond) // until the call runs or waits
		}
	}

	call := func(r server.RunningCall) {
		isFor := func(w server.Wait) bool { return r.Waits == w }
		fmt.Println(r.Method, "runs:", isFor(""), "waits for a slot:", isFor(server.WaitsForSlot))
	}
	for _, r := range srv.Running(10) {
		call(r)
	}
	connection := func(c server.Connection) {
		fmt.Println("a client of", c.Protocol, "has made", c.Calls, "calls, of which not answered:", c.Running)
	}
	connection(srv.Connections()[0])
	limit := func(l server.Limit) {
		fmt.Printf("%d of %d calls run, %d of %d wait, %d were refused\n", l.Running, l.Limit, l.Queued, l.Queue, l.Refused)
	}
	limit(srv.Limits()[0])
	close(finish)
	check(<-made)
	check(<-made)
	// Output:
	// Report.Make runs: true waits for a slot: false
	// Report.Make runs: false waits for a slot: true
	// a client of tandem has made 2 calls, of which not answered: 2
	// 1 of 1 calls run, 1 of 10 wait, 0 were refused
}

// Settings is the configuration that a server has in force: what its options set, and the defaults
// of the others.
func ExampleServer_Settings() {
	srv := server.New(server.WithMemory(64<<20), server.WithTimeout(30*time.Second))
	show := func(s tandem.Setting) { fmt.Println(s.Name, s.Value, s.From) }
	for _, s := range srv.Settings() {
		switch s.Name {
		case "WithMemory", "WithTimeout", "WithTLS":
			show(s)
		}
	}
	// Output:
	// WithTLS off default
	// WithMemory 67108864 option
	// WithTimeout 30s option
}
