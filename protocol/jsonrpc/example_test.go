package jsonrpc_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/rpc/jsonrpc"
	"os"
	"strings"

	protocol "github.com/tandem-rpc/tandem/protocol/jsonrpc"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// Clients of net/rpc/jsonrpc work unchanged, together with JSON-RPC 2.0.
func Example() {
	srv := server.New(server.WithProtocols(protocol.New()))
	check(srv.Register(Arith{}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	old, err := jsonrpc.Dial("tcp", ln.Addr().String())
	check(err)
	var r Reply
	fmt.Println(old.Call("Arith.Mul", &Args{6, 7}, &r), r.C)
	check(old.Close())

	c, err := net.Dial("tcp", ln.Addr().String())
	check(err)
	answers := bufio.NewScanner(c)
	for _, request := range []string{
		`{"jsonrpc": "2.0", "method": "Arith.Mul", "params": {"A": 6, "B": 7}, "id": 1}`,
		`{"jsonrpc": "2.0", "method": "Arith.Mul", "params": [6, 7], "id": 2}`,
		`{"jsonrpc": "2.0", "method": "Arith.Pow", "params": [6, 7], "id": 3}`,
	} {
		fmt.Fprintln(c, request)
		answers.Scan()
		fmt.Println(answers.Text())
	}
	check(c.Close())

	check(srv.Shutdown(context.Background()))
	<-served
	// Output:
	// <nil> 42
	// {"jsonrpc":"2.0","result":{"C":42},"id":1}
	// {"jsonrpc":"2.0","result":{"C":42},"id":2}
	// {"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found","data":"rpc: can't find method Arith.Pow"},"id":3}
}

// JSON-RPC over HTTP and WebSocket is a handler of package web.
func ExampleHandler() {
	overHTTP := web.WithHandler("/jsonrpc", protocol.Handler(web.Conn, web.Metadata))
	srv := server.New(server.WithProtocols(web.New(overHTTP)))
	check(srv.Register(Arith{}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	request := strings.NewReader(`{"jsonrpc": "2.0", "method": "Arith.Mul", "params": [6, 7], "id": 1}`)
	response, err := http.Post("http://"+ln.Addr().String()+"/jsonrpc", "application/json", request)
	check(err)
	_, err = io.Copy(os.Stdout, response.Body)
	check(err)
	check(response.Body.Close())

	http.DefaultClient.CloseIdleConnections()
	check(srv.Shutdown(context.Background()))
	<-served
	// Output: {"jsonrpc":"2.0","result":{"C":42},"id":1}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
