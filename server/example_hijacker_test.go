package server_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// Counter reads the arguments and writes the results of one of its methods itself.
type Counter struct {
	server.Hijacker
	n int
}

// Add has the types of the arguments and results; add does the work.
func (c *Counter) Add(n int) (int, error) { return c.n + n, nil }

// Setup is called at registration, which fails with an error of HijackProcess, too.
func (c *Counter) Setup() { _ = c.HijackProcess("Add", c.add) }

// add reads the arguments and writes the results itself, as many and as late as
// it likes.
func (c *Counter) add(stub *server.Stub) {
	var n int
	err := stub.Read(&n)
	if err == nil && n < 0 {
		err = tandem.Errorf(tandem.InvalidArgument, "a counter does not go back by %d", -n)
	}
	if err != nil {
		_ = stub.WriteErr(err)
		return
	}
	c.n += n
	_ = stub.Write(c.n)
}

func ExampleHijacker() {
	srv := server.New()
	if err := srv.Register(&Counter{n: 40}); err != nil {
		fmt.Println(err)
	}
	c, stop := start(srv)
	defer stop()
	for _, n := range []int{2, -3} {
		var sum int
		err := c.Call(context.Background(), "Counter.Add", n, &sum, client.Codec("json"))
		fmt.Println(sum, err)
	}
	// Output:
	// 42 <nil>
	// 0 invalid argument: a counter does not go back by 3
}
