package rpcx

import (
	"context"
	"testing"

	rpcxserver "github.com/smallnest/rpcx/server"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/protocoltest"
	"github.com/tandem-rpc/tandem/protocol/rpcx"
)

// Notes records which calls ran.
type Notes struct{ journal *protocoltest.Journal }

func (n *Notes) Note(_ context.Context, id *string, said *string) error {
	*said = n.journal.Note(*id)
	return nil
}

// A call to an rpcx server whose connection is lost, after any byte, is Unavailable, and
// its NotExecuted is correct.
func TestLostConnections(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 11
	}
	journal := new(protocoltest.Journal)
	_, srv, address := serveRPCX(t, "127.0.0.1:0", func(s *rpcxserver.Server) {
		if err := s.RegisterName("Notes", &Notes{journal}, ""); err != nil {
			t.Fatal(err)
		}
	})
	relay := protocoltest.NewRelay(t, address)
	l := protocoltest.Lossy{
		Journal: journal, Relay: relay,
		Dial: func(opts ...client.Option) (*client.Client, error) {
			return client.Dial("rpcx://"+relay.Addr(), append(opts, client.WithProtocols(rpcx.Client()))...)
		},
		Call: func(ctx context.Context, c *client.Client, id string, opts ...tandem.CallOption) (said string, err error) {
			err = c.Call(ctx, "Notes.Note", id, &said, opts...)
			return said, err
		},
		Stop: func() { _ = srv.Shutdown(context.Background()) },
	}
	l.Everywhere(t, step)
}
