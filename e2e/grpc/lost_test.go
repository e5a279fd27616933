package grpc

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/protocoltest"
	"github.com/tandem-rpc/tandem/protocol/web"
)

// A call to a grpc-go server whose connection is lost, after any byte, is Unavailable, and
// its NotExecuted is correct.
func TestLostConnections(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 11
	}
	journal := new(protocoltest.Journal)
	note := func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.StringValue)
		if err := decode(in); err != nil {
			return nil, err
		}
		return wrapperspb.String(journal.Note(in.GetValue())), nil
	}
	srv := grpc.NewServer(grpc.WaitForHandlers(true))
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test.v1.Notes", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Note", Handler: note}},
	}, struct{}{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ln) }()
	relay := protocoltest.NewRelay(t, ln.Addr().String())
	l := protocoltest.Lossy{
		Journal: journal, Relay: relay,
		Dial: func(opts ...client.Option) (*client.Client, error) {
			return client.Dial("grpc://"+relay.Addr(), append(opts, client.WithProtocols(web.GRPC()))...)
		},
		Call: func(ctx context.Context, c *client.Client, id string, opts ...tandem.CallOption) (string, error) {
			out, err := client.Invoke[wrapperspb.StringValue](ctx, c, "test.v1.Notes.Note", wrapperspb.String(id), opts...)
			return out.GetValue(), err
		},
		Stop: func() {
			srv.Stop()
			<-ended
		},
	}
	l.Everywhere(t, step)
}
