package rpcx_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem/compat/rpcx"
	"github.com/tandem-rpc/tandem/compat/rpcx/clientselector"
	"github.com/tandem-rpc/tandem/compat/rpcx/plugin"
)

// A server with authentication, and a client with and without the right token, as in rpcx's
// documentation.
func Example() {
	server := rpcx.NewServer()
	check(server.Auth(func(p *plugin.AuthorizationAndServiceMethod) error {
		if p.Tag != "Bearer" || p.Authorization != "sesame" {
			return errors.New("Authorization failed")
		}
		return nil
	}))
	check(server.RegisterName("Arith", new(Arith)))
	check(server.Start("tcp", "127.0.0.1:0"))

	s := &rpcx.DirectClientSelector{Network: "tcp", Address: server.Address(), Timeout: 10 * time.Second}
	for _, token := range []string{"guess", "sesame"} {
		client := rpcx.NewClient(s)
		check(client.Auth(token, "Bearer"))
		var reply Reply
		err := client.Call("Arith.Mul", &Args{7, 8}, &reply)
		fmt.Println(reply.C, err)
		check(client.Close())
	}
	check(s.Close())
	check(server.Close())
	// Output:
	// 0 Authorization failed
	// 56 <nil>
}

// A selector keeps its round-robin position from one client to the next.
func Example_servers() {
	var servers []clientselector.ServerPair
	for _, rcvr := range []any{new(Arith), new(Arith2)} {
		server := rpcx.NewServer()
		check(server.RegisterName("Arith", rcvr))
		check(server.Start("tcp", "127.0.0.1:0"))
		defer server.Close()
		servers = append(servers, clientselector.ServerPair{Network: "tcp", Address: server.Address()})
	}
	s := clientselector.NewMultiClientSelector(servers, rpcx.RoundRobin, 10*time.Second)
	sum := 0
	for range 10 {
		client := rpcx.NewClient(s)
		var reply Reply
		check(client.Call("Arith.Mul", &Args{7, 8}, &reply))
		sum += reply.C
		check(client.Close())
	}
	fmt.Println(sum == 5*56+5*560)
	check(s.Close())
	// Output: true
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
