package netrpc_test

import (
	"context"
	"net"
	"net/http"
	"net/rpc"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/protocol/protocoltest"
)

// Notes records which calls ran.
type Notes struct{ journal *protocoltest.Journal }

func (n *Notes) Note(id string, said *string) error {
	*said = n.journal.Note(id)
	return nil
}

// A call to the standard library's server whose connection is lost, after any byte, is
// Unavailable, and its NotExecuted is correct.
func TestLostConnections(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 11
	}
	for _, p := range []client.Protocol{netrpc.Client(), netrpc.HTTPClient("", nil)} {
		t.Run(p.Name(), func(t *testing.T) {
			t.Parallel()
			journal := new(protocoltest.Journal)
			address, stop := serveNotes(t, journal, p.Name() == "netrpc")
			relay := protocoltest.NewRelay(t, address)
			l := protocoltest.Lossy{
				Journal: journal, Relay: relay, Stop: stop,
				Dial: func(opts ...client.Option) (*client.Client, error) {
					return client.Dial(p.Name()+"://"+relay.Addr(), append(opts, client.WithProtocols(p))...)
				},
				Call: func(ctx context.Context, c *client.Client, id string, opts ...tandem.CallOption) (said string, err error) {
					err = c.Call(ctx, "Notes.Note", id, &said, opts...)
					return said, err
				},
			}
			l.Everywhere(t, step)
		})
	}
}

// serveNotes runs a server of the standard library, over TCP or over HTTP. stop waits for
// its connections, each of which waits for its handlers.
func serveNotes(t *testing.T, journal *protocoltest.Journal, tcp bool) (address string, stop func()) {
	t.Helper()
	srv := rpc.NewServer()
	if err := srv.RegisterName("Notes", &Notes{journal}); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	if !tcp {
		mux := http.NewServeMux()
		mux.Handle(rpc.DefaultRPCPath, srv)
		hs := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
		wg.Go(func() { _ = hs.Serve(ln) })
		return ln.Addr().String(), func() {
			_ = hs.Close()
			wg.Wait()
		}
	}
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { srv.ServeConn(c) })
		}
	})
	return ln.Addr().String(), func() {
		_ = ln.Close()
		wg.Wait()
	}
}
