package server_test

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// Over TLS the first bytes decide, too, unless the client has selected a protocol by ALPN.
func TestForeignProtocolsOverTLS(t *testing.T) {
	serverConfig, clientConfig := testcert.Pair(t, "localhost")
	srv := server.New(server.WithTLS(serverConfig), server.WithProtocols(talk{}, asked{}))
	if err := srv.RegisterFunc("Who", func(ctx context.Context, _ string) string {
		peer := tandem.FromContext(ctx).Peer
		return fmt.Sprint(peer.Protocol, peer.TLS != nil && peer.Addr != nil)
	}); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve("tcp", "127.0.0.1:0") }()
	t.Cleanup(func() { _ = srv.Close(); <-served })
	waitFor(t, "the listener", func() bool { return len(srv.Addrs()) == 1 })
	address := srv.Addrs()[0].String()
	for _, protocols := range [][]string{nil, {"talk"}, {"h3", "asked"}} {
		config := clientConfig.Clone()
		config.NextProtos = protocols
		c, err := tls.Dial("tcp", address, config)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "CALL Who x\n")
		line, err := bufio.NewReader(c).ReadString('\n')
		asked := strings.Join(protocols[max(0, len(protocols)-1):], "")
		if want := cmp.Or(asked, "talk") + "true\n"; line != want || c.ConnectionState().NegotiatedProtocol != asked {
			t.Errorf("%v: %q, %v, %q", protocols, line, err, c.ConnectionState().NegotiatedProtocol)
		}
		_ = c.Close()
	}
	c, err := client.Dial("tcp://"+address, client.WithTLS(clientConfig))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if who, err := client.Invoke[string](t.Context(), c, "Who", "x"); err != nil || *who != "tandemtrue" {
		t.Errorf("tandem's own client: %v, %v", who, err)
	}
}

// asked is talk for clients that select it by ALPN.
type asked struct{ talk }

func (asked) Name() string                { return "asked" }
func (asked) NextProtos() []string        { return []string{"asked"} }
func (asked) Match([]byte) server.Verdict { return server.No }

// A panic of a protocol closes its connection and is logged; the server goes on.
func TestProtocolThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProtocolTest(t, server.WithProtocols(broken{}))
		_, r := p.dial("BROKEN")
		if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		_, r = p.dial("Broken")
		if _, err := r.ReadByte(); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		_, r = p.dial("CALL Echo on\n")
		p.wantLine(r, "on")
		if !strings.Contains(p.log.String(), "broken's Serve") || !strings.Contains(p.log.String(), "protocol's Match") {
			t.Errorf("the log: %s", p.log.String())
		}
	})
}

type broken struct{}

func (broken) Name() string { return "broken" }
func (broken) Match(first []byte) server.Verdict {
	switch {
	case first[0] != 'B':
		return server.No
	case first[1] != 'R':
		panic(first)
	}
	return server.Yes
}
func (broken) Serve(context.Context, *server.Conn) error { panic("at once") }

// Two protocols of one name are an error, and so is tandem's own name.
func TestProtocolNames(t *testing.T) {
	for _, protocols := range [][]server.Protocol{{talk{}, talk{}}, {impostor{}}} {
		srv := server.New(server.WithProtocols(protocols...))
		ln, err := transport.NewMemory().Listen(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if err := srv.ServeListener(ln); err == nil || !strings.Contains(err.Error(), "two protocols are named") {
			t.Errorf("%v: %v", protocols, err)
		}
		_ = srv.Close()
	}
}

type impostor struct{ talk }

func (impostor) Name() string { return "tandem" }
