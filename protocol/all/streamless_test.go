package all_test

import (
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
)

// StreamWindow is refused by the protocols without streams, and only by them.
func TestStreamWindowNeedsStreams(t *testing.T) {
	address, _ := serveLogged(t, server.WithProtocols(all.New()...))
	for _, p := range all.Clients() {
		target := p.Name() + "://" + address
		c, err := client.Dial(target, client.WithProtocols(p))
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.OpenStream(t.Context(), "T.X")
		streamless := err != nil && strings.Contains(err.Error(), "can't carry")
		_ = c.Close()
		c, err = client.Dial(target, client.WithProtocols(p), client.WithConnections(client.Connections{StreamWindow: 64 << 10}))
		if err == nil {
			_ = c.Close()
		}
		if (err != nil) != streamless || err != nil && !strings.Contains(err.Error(), "StreamWindow") {
			t.Errorf("%s: carries no streams: %v; StreamWindow: %v", p.Name(), streamless, err)
		}
	}
}
