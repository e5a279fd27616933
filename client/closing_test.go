package client_test

import (
	"testing"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// A connection may have been made, and the client not have taken it up, when the
// client is closed.
func TestCloseWhileConnecting(t *testing.T) {
	network := transport.NewMemory()
	srv := server.New(server.WithClients(nil))
	ln, err := network.Listen(t.Context(), "home")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	defer func() {
		_ = srv.Close()
		<-served
	}()
	for range 500 {
		c, err := client.Dial("mem://home", client.WithTransport("mem", network), client.WithID("lamp"))
		if err != nil {
			t.Fatal(err)
		}
		if err := srv.AwaitClient(t.Context(), "lamp"); err != nil { // which the client says as soon as it is connected
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
