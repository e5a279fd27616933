package server_test

import (
	"context"
	"errors"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// misuse returns options that can't work, by a part of the error that they make.
func misuse() map[string]server.Option {
	double := &doubled{}
	return map[string]server.Option{
		"WithCodecs":                       server.WithCodecs(nil),
		"WithCompressors":                  server.WithCompressors(nil),
		"WithOverloadControl: Cut: -1":     server.WithOverloadControl(server.OverloadConfig{Cut: -1}),
		"WithOverloadControl: Share: 2":    server.WithOverloadControl(server.OverloadConfig{Share: 2}),
		"WithOverloadControl: Slower: NaN": server.WithOverloadControl(server.OverloadConfig{Slower: math.NaN()}),
		"WithOverloadControl: Every: 1ns":  server.WithOverloadControl(server.OverloadConfig{Every: 1}),
		"WithOverloadControl: Missed: 92":  server.WithOverloadControl(server.OverloadConfig{Missed: math.MaxInt64 / 100_000}),
		"WithOverloadControl: FirstLimit":  server.WithOverloadControl(server.OverloadConfig{FirstLimit: math.MaxInt64}),
		"WithCompressAbove: got -1":        server.WithCompressAbove(-1),
		"WithTransport":                    server.WithTransport("x", nil),
		"WithTLS":                          server.WithTLS(nil),
		"WithInterceptors":                 server.WithInterceptors(nil),
		"WithTimeout: got -1s":             server.WithTimeout(-time.Second),
		"WithMaxConcurrency: got [0 0]":    server.WithMaxConcurrency(0, 0),
		"WithMaxConcurrency: got [1 -1]":   server.WithMaxConcurrency(1, -1),
		"WithMaxMessage: got 0":            server.WithMaxMessage(0),
		"WithMemory: got 0":                server.WithMemory(0),
		"WithMaxDecoded: got -1":           server.WithMaxDecoded(-1),
		"WithStreamWindow: got 1":          server.WithStreamWindow(1),
		"WithMaxOpenCalls: got 65537":      server.WithMaxOpenCalls(1<<16 + 1),
		"WithMaxConnections: got -1":       server.WithMaxConnections(-1),
		"WithHandshakeTimeout: got -1s":    server.WithHandshakeTimeout(-time.Second),
		"WithStallTimeout: got -1s":        server.WithStallTimeout(-time.Second),
		"WithSilence: got -1s":             server.WithSilence(-time.Second),
		"WithSilence: got 1s":              server.WithSilence(time.Second),
		"WithProxies":                      server.WithProxies(netip.Prefix{}),
		"WithMaxConnectionAge":             server.WithMaxConnectionAge(-1, 0),
		"WithLameDuck":                     server.WithLameDuck(-1),
		"WithRegistrar":                    server.WithRegistrar(nil, tandem.Instance{}),
		"WithProtocols: got <nil>":         server.WithProtocols(nil),
		"named \"talk\"":                   server.WithProtocols(talk{}, talk{}),
		"begin with \"CALL \"":             server.WithProtocols(talk{}, louder{}),
		"begin with \"\\x93TND\"":          server.WithProtocols(words{}, talk{}),
		"ask for \"asked\"":                server.WithProtocols(asked{}, askedToo{}),
		"implements no point":              server.WithPlugins(7),
		"is given twice":                   server.WithPlugins(double, double),
	}
}

// louder matches the same first bytes as talk.
type louder struct{ talk }

func (louder) Name() string { return "louder" }

// askedToo has the same ALPN name as asked.
type askedToo struct{ asked }

func (askedToo) Name() string { return "asked too" }

type doubled struct{ _ int }

func (*doubled) ConnAccepted(c net.Conn) (net.Conn, error) { return c, nil }

// Options that can't work, or clash, make every method that is called after New fail, before a
// connection is accepted.
func TestMisuseIsAnError(t *testing.T) {
	for want, option := range misuse() {
		t.Run(want, func(t *testing.T) {
			srv := server.New(option)
			t.Cleanup(func() { _ = srv.Close() })
			ln, err := transport.NewMemory().Listen(t.Context(), "a")
			if err != nil {
				t.Fatal(err)
			}
			near, far := transport.Pipe(&net.UnixAddr{}, &net.UnixAddr{})
			defer near.Close()
			for what, err := range map[string]error{
				"RegisterName":  srv.RegisterName("Echo", new(echo)),
				"RegisterFunc":  srv.RegisterFunc("Len", func(s string) int { return len(s) }),
				"Handle":        server.Handle(srv, "T.F", func(_ context.Context, n *int) (*int, error) { return n, nil }),
				"HandleStream":  server.HandleStream(srv, "T.S", func(context.Context, *tandem.Stream[int, int]) error { return nil }),
				"Serve":         srv.Serve("tcp", "127.0.0.1:0"),
				"ServeListener": srv.ServeListener(ln),
				"ServeProtocol": srv.ServeProtocol(far, talk{}),
			} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: %v", what, err)
				}
			}
			if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the listener is open: %v", err)
			}
		})
	}
	srv := server.New(server.WithProtocols(talk{}, words{})) // the last takes what is left
	defer srv.Close()
	if err := srv.RegisterFunc("Len", func(s string) int { return len(s) }); err != nil {
		t.Error(err)
	}
}

type echo struct{}

func (*echo) Say(s string) (string, error) { return s, nil }
