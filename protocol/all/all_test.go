package all_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"net/rpc/jsonrpc"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/wire"
)

// One port serves clients of every protocol.
func Example() {
	srv := server.New(server.WithProtocols(all.New()...))
	check(srv.RegisterFunc("Text.Len", func(s string) int { return len(s) }))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	address := ln.Addr().String()

	c, err := client.Dial("tcp://" + address)
	check(err)
	n, err := client.Invoke[int](context.Background(), c, "Text.Len", "tandem")
	fmt.Println(*n, err)
	check(c.Close())
	for _, dial := range []func(network, address string) (*rpc.Client, error){rpc.Dial, rpc.DialHTTP, jsonrpc.Dial} {
		c, err := dial("tcp", address)
		check(err)
		var n int
		err = c.Call("Text.Len", "net/rpc", &n)
		fmt.Println(n, err)
		check(c.Close())
	}
	check(srv.Shutdown(context.Background()))
	<-served
	// Output:
	// 6 <nil>
	// 7 <nil>
	// 7 <nil>
	// 7 <nil>
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// The first bytes of each client are accepted by exactly one protocol, and tandem's by
// none.
func TestExactlyOneProtocolMatches(t *testing.T) {
	for said, want := range map[string]string{
		wire.Magic:               "",
		"{\"jsonrpc\":":          "jsonrpc",
		"[{":                     "jsonrpc",
		"{}":                     "jsonrpc",
		"CONNECT /_goRPC_ HTTP/": "netrpc",
		".\x7f\x03\x01\x01\x07Request\x01\xff\x80": "netrpc",
		"\x08\x00\x00\x30\x00\x00":                 "rpcx",
		"GET / HTTP/1.1\r\n":                       "web",
		"PRI * HTTP/2.0\r\n":                       "web",
		"CONNECT example.org:443 HTTP/1.1":         "",
		"\x16\x03\x01\x00\xa5\x01":                 "",
	} {
		got := ""
		for _, p := range all.New() {
			switch p.Match([]byte(said)) {
			case server.Yes:
				got += p.Name()
			case server.NeedMore:
				t.Errorf("%q: %s wants more", said, p.Name())
			case server.No:
			}
		}
		if got != want {
			t.Errorf("%q is %q, want %q", said, got, want)
		}
	}
}

// The protocols of clients have different names, and each can call our server.
func TestClients(t *testing.T) {
	srv := server.New(server.WithProtocols(all.New()...))
	if err := srv.RegisterFunc("Text.Len", func(s string) int { return len(s) }); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	for _, p := range all.Clients() {
		c, err := client.Dial(p.Name()+"://"+ln.Addr().String(), client.WithProtocols(all.Clients()...), client.WithCodec(plain(p)))
		if err != nil {
			t.Fatal(err)
		}
		n, err := client.Invoke[int](t.Context(), c, "Text.Len", p.Name())
		if err != nil || *n != len(p.Name()) {
			t.Errorf("%s: %v", p.Name(), err)
		}
		_ = c.Close()
	}
	_ = srv.Close()
	<-served
}

// The scheme of the target chooses the codec, also if an earlier protocol has another.
func TestSchemeChoosesCodec(t *testing.T) {
	srv := server.New(server.WithProtocols(all.New()...))
	codecs := make(chan string, 1)
	err := errors.Join(
		srv.RegisterFunc("Text.Len", func(ctx context.Context, s string) int {
			codecs <- tandem.FromContext(ctx).Codec
			return len(s)
		}),
		srv.RegisterFunc("Text.Proto", func(ctx context.Context, s *wrapperspb.StringValue) *wrapperspb.StringValue {
			codecs <- tandem.FromContext(ctx).Codec
			return s
		}))
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	for target, want := range map[string]string{
		"tcp://%s": "gob", "static://%s": "gob", "netrpc://%s": "gob", "netrpc+http://%s": "gob", "rpcx://%s": "msgpack",
		"jsonrpc://%s": "json", "jsonrpc+http://%s": "json", "grpc://%s": "protobuf", "connect://%s": "protobuf",
		"static://%s?protocol=netrpc": "gob", "static://%s?protocol=grpc": "protobuf",
	} {
		c, err := client.Dial(fmt.Sprintf(target, ln.Addr()), client.WithProtocols(all.Clients()...))
		if err != nil {
			t.Fatal(err)
		}
		if want == "protobuf" {
			err = c.Call(t.Context(), "Text.Proto", wrapperspb.String(target), new(wrapperspb.StringValue))
		} else {
			err = c.Call(t.Context(), "Text.Len", target, new(int))
		}
		if err != nil {
			t.Errorf("%s: %v", target, err)
		} else if got := <-codecs; got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
		_ = c.Close()
	}
	_ = srv.Close()
	<-served
}

// A codec that the target's protocol does not support is an error of Dial.
func TestCodecOfAnotherProtocol(t *testing.T) {
	for target, ok := range map[string]bool{
		"grpc://localhost:1": false, "static://localhost:1?protocol=connect": false, "jsonrpc://localhost:1": false,
		"netrpc://localhost:1": true, "tcp://localhost:1": true, "static://localhost:1": true,
	} {
		c, err := client.Dial(target, client.WithProtocols(all.Clients()...), client.WithCodec(codec.Gob()))
		if ok != (err == nil) || err != nil && !strings.Contains(err.Error(), `does not carry codec "gob"; it carries`) {
			t.Errorf("%s: %v", target, err)
		}
		if err == nil {
			_ = c.Close()
		}
	}
}

// plain returns a codec of the protocol that can encode a string.
func plain(p client.Protocol) tandem.Codec {
	for _, c := range p.Codecs() {
		if c.Name() == "json" {
			return c
		}
	}
	return p.Codecs()[0]
}
