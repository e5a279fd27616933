package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
)

// A client that starts while its registry is down uses the servers of the last list.
func ExampleWithSnapshots() {
	dir, err := os.MkdirTemp("", "snapshots")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	srv := server.New()
	if err := srv.RegisterFunc("Time.Zone", func() string { return "UTC" }); err != nil {
		panic(err)
	}
	go srv.ServeListener(ln)
	defer srv.Close()

	list := registry.NewMemory()
	at := tandem.Endpoint{Transport: "tcp", Address: ln.Addr().String()}
	if _, err := list.Register(context.Background(), tandem.Instance{ID: "a", Endpoints: []tandem.Endpoint{at}}); err != nil {
		panic(err)
	}

	call := func() {
		c, err := client.Dial("memory://time", client.WithResolver("memory", list), client.WithSnapshots(dir))
		if err != nil {
			panic(err)
		}
		defer c.Close()
		var zone string
		err = c.Call(context.Background(), "Time.Zone", tandem.Args{}, &zone)
		fmt.Println(zone, err)
	}
	call()
	list.Fail(errors.New("the registry is down"))
	call()
	// Output:
	// UTC <nil>
	// UTC <nil>
}
