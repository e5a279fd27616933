package thrift_test

import (
	"context"
	"fmt"
	"net"

	apache "github.com/apache/thrift/lib/go/thrift"

	"github.com/tandem-rpc/tandem/protocol/thrift"
	"github.com/tandem-rpc/tandem/protocol/thrift/testdata/desk"
	"github.com/tandem-rpc/tandem/server"
)

// Clerk has methods that generated clients, and clients of other protocols, call.
type Clerk struct{}

func (Clerk) Add(a, b int32) (int32, error) { return a + b, nil }

func (Clerk) Divide(a, b int64) (int64, error) {
	if b == 0 {
		return 0, &desk.Missing{Number: 42, Where: "the divisor"}
	}
	return a / b, nil
}

// A generated client works unchanged. Method divide has exceptions and gaps in its numbers.
func Example() {
	srv := server.New(server.WithProtocols(thrift.New(
		thrift.WithService("Desk"),
		thrift.WithMethod("Desk.Divide", (*desk.DeskDivideArgs)(nil), (*desk.DeskDivideResult)(nil)),
	)))
	check(srv.RegisterName("Desk", Clerk{}))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	socket := apache.NewTSocketConf(ln.Addr().String(), nil)
	check(socket.Open())
	p := apache.NewTCompactProtocolConf(apache.NewTFramedTransportConf(socket, nil), nil)
	c := desk.NewDeskClient(apache.NewTStandardClient(p, p))
	ctx := context.Background()
	fmt.Println(c.Add(ctx, 40, 2))
	fmt.Println(c.Divide(ctx, 1, 0))
	fmt.Println(c.Who(ctx))
	check(socket.Close())

	check(srv.Shutdown(ctx))
	<-served
	// Output:
	// 42 <nil>
	// 0 Missing({Number:42 Where:the divisor})
	//  no method "who" here
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
