package all_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/rpc"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/wire"
)

// twice are the ways to send two credentials, by protocol. HTTP covers JSON, Connect, gRPC,
// gRPC-Web, JSON-RPC, WebSocket and Triple.
var twice = map[string]func(g *gate, tokens ...string) []byte{
	"tandem": func(g *gate, tokens ...string) []byte {
		return askTandem(wire.FlagEnd, func(r *wire.Request) {
			var err error
			r.Metadata, err = wire.AppendMetadata(nil, tandem.Metadata{"authorization": tokens})
			check(err)
		})(g, "Open", "")
	},
	"netrpc": func(g *gate, tokens ...string) []byte {
		var b bytes.Buffer
		fmt.Fprintf(&b, "CONNECT %s HTTP/1.0\r\n", rpc.DefaultRPCPath)
		for _, token := range tokens {
			fmt.Fprintf(&b, "Authorization: %s\r\n", token)
		}
		b.WriteString("\r\n")
		e := gob.NewEncoder(&b)
		check(errors.Join(e.Encode(&rpc.Request{ServiceMethod: "Gate.Open", Seq: 7}), e.Encode(saying)))
		return g.exchange(b.Bytes(), toTheEnd)
	},
	"rpcx": func(g *gate, tokens ...string) []byte {
		var metadata []byte
		for _, token := range tokens {
			metadata = appendPart(appendPart(metadata, "__AUTH"), token)
		}
		return g.exchange(rpcxCall(metadata), toTheEnd)
	},
	"rpcx, by another key": func(g *gate, tokens ...string) []byte {
		metadata := appendPart(appendPart(nil, "__AUTH"), tokens[0])
		for _, token := range tokens[1:] {
			metadata = appendPart(appendPart(metadata, "Authorization"), token)
		}
		return g.exchange(rpcxCall(metadata), toTheEnd)
	},
	"HTTP/1.1": func(g *gate, tokens ...string) []byte { return authorized(g, false, tokens) },
	"HTTP/2":   func(g *gate, tokens ...string) []byte { return authorized(g, true, tokens) },
}

func rpcxCall(metadata []byte) []byte {
	body := appendPart(appendPart(appendPart(appendPart(nil, "Gate"), "Open"), string(metadata)), `"`+saying+`"`)
	head := []byte{0x08, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 7}
	return appendPart(head, string(body))
}

func authorized(g *gate, http2 bool, tokens []string) []byte {
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!http2)
	tr.Protocols.SetUnencryptedHTTP2(http2)
	defer tr.CloseIdleConnections()
	r, err := http.NewRequestWithContext(g.Context(), http.MethodPost, "http://"+g.address+"/Gate/Open", strings.NewReader(`"`+saying+`"`))
	check(err)
	r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": tokens}
	res, err := tr.RoundTrip(r)
	check(err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	check(err)
	return append([]byte(res.Status), b...)
}

// A call with two credentials is refused, in either order and even if they are equal: a
// proxy or an interceptor may use the other one.
func TestDoubledCredentials(t *testing.T) {
	var opened atomic.Bool
	known := auth.Bearer(auth.Known(map[string]string{"right": "staff"}))
	note := auth.Require("*", func(any) error {
		opened.Store(true)
		return nil
	})
	srv := server.New(server.WithProtocols(withTriple()...), server.WithPlugins(auth.New(known, note)))
	check(server.Handle(srv, "Gate.Open", func(_ context.Context, s *string) (*string, error) { return s, nil }))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	defer func() {
		check(srv.Close())
		<-served
	}()
	for name, ask := range twice {
		g := &gate{t, ln.Addr().String()}
		for _, tokens := range [][]string{{"Bearer right", "Bearer wrong"}, {"Bearer wrong", "Bearer right"}, {"Bearer right", "Bearer right"}} {
			if got := ask(g, tokens...); opened.Swap(false) || !bytes.Contains(got, []byte("400")) && !bytes.Contains(got, []byte("credentials")) && !bytes.Contains(got, []byte("more than one token")) {
				t.Errorf("%s with %q: %q", name, tokens, got)
			}
		}
		if ask(g, "Bearer right"); !opened.Swap(false) {
			t.Errorf("%s: one credential is refused", name)
		}
	}
}

// A CONNECT that another server may interpret differently is refused, and its connection
// ends.
func TestMalformedConnect(t *testing.T) {
	g := newGate(t, server.WithPlugins())
	for _, head := range []string{
		"Content-Length: 5\r\n", "Content-Length: 0\r\n", "Transfer-Encoding: chunked\r\n", "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
	} {
		got := g.exchange([]byte("CONNECT "+rpc.DefaultRPCPath+" HTTP/1.1\r\nHost: a\r\n"+head+"\r\n"), func(c net.Conn) ([]byte, error) { return io.ReadAll(c) })
		if !bytes.HasPrefix(got, []byte("HTTP/1.0 400 ")) {
			t.Errorf("%q: %q", head, got)
		}
	}
}
