package web_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/internal/honestcalls"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// Clients that send requests that are refused, or never finished, do not affect other
// connections: native calls and calls over HTTP continue.
func TestHonestBesideHostile(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := honestcalls.Serve(t, ln, server.WithProtocols(web.New()), server.WithStallTimeout(200*time.Millisecond), server.WithLogger(slog.New(slog.DiscardHandler)))
	if err := srv.RegisterFunc("Len", func(s string) int { return len(s) }); err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	var hostile atomic.Int64
	honestcalls.Beside(t, transport.TCP(), address, func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for _, request := range []string{
			post("/No/Method", sized), post("/No/Method", chunks), post("/Len", sized), post("/Len", chunks+"z\r\n"),
			post("/Len", "Content-Length: 15\r\n"+chunks+"5\r\n\"abc\"\r\n0\r\n\r\n"), post("/No%2fMethod", sized),
			"POST /Len HTTP/1.1\r\nHost: evil.example\r\n\r\n", "POST /Len HTTP/1.1\r\nHo",
			http2Preface + "\x00\x00\x08", http2Preface + "\x00\x00\x01\x01\x00\x00\x00\x00\x01\x83",
		} {
			for range 4 {
				wg.Go(func() {
					for ctx.Err() == nil {
						misbehave(ctx, address, request)
						hostile.Add(1)
					}
				})
			}
		}
		wg.Wait()
	})
	if hostile.Load() == 0 {
		t.Error("there was no attack")
	}
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// misbehave sends bytes and waits for the end of the connection.
func misbehave(ctx context.Context, address, request string) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if _, err := io.WriteString(c, request); err == nil {
		_, _ = io.Copy(io.Discard, c)
	}
}
