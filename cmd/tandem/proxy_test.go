package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/traffic"
)

// lineWriter passes on what is written, a line at a time.
type lineWriter struct{ lines chan string }

func (w *lineWriter) Write(p []byte) (int, error) {
	for line := range strings.Lines(string(p)) {
		w.lines <- strings.TrimSuffix(line, "\n")
	}
	return len(p), nil
}

// proxied starts a proxy to an address, and returns its own address, its lines, and a function
// that ends it and returns how it ended.
func proxied(t *testing.T, f *proxyFlags, to string) (address string, lines chan string, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &lineWriter{make(chan string, 10_000)}
	ended := make(chan error, 1)
	go func() {
		ended <- f.run(ctx, &shell{strings.NewReader(""), w, io.Discard}, "tcp://127.0.0.1:0", "tcp://"+to)
	}()
	end = func() error {
		cancel()
		return <-ended
	}
	first := <-w.lines
	address, _, _ = strings.Cut(strings.TrimPrefix(first, "passing tcp://"), " ")
	return address, w.lines, end
}

// echo is a server that sends back what it gets, after the client's end; it returns its address.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				text, _ := io.ReadAll(c)
				_, _ = c.Write(text)
				_ = c.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return l.Addr().String()
}

// TestProxyPassesOn: many connections at once, each with more bytes than buffers hold, and an end of
// one direction before the other.
func TestProxyPassesOn(t *testing.T) {
	address, lines, end := proxied(t, &proxyFlags{format: listing.Table, connections: 3}, echo(t))
	const connections = 10
	text := bytes.Repeat([]byte("\x00text "), 100_000)
	var clients sync.WaitGroup
	for range connections {
		clients.Go(func() {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			_, err = c.Write(text)
			got, errRead := []byte(nil), errors.Join(err, c.(*net.TCPConn).CloseWrite())
			if errRead == nil {
				got, errRead = io.ReadAll(c)
			}
			if errRead != nil || !bytes.Equal(got, text) {
				t.Errorf("%d bytes of %d came back, %v", len(got), len(text), errRead)
			}
		})
	}
	clients.Wait()
	for closed := 0; closed < connections; {
		line := <-lines
		if !strings.Contains(line, " - close ") {
			continue
		}
		closed++
		if !strings.HasSuffix(line, "(the client sent 600000 bytes, the server 600000)") {
			t.Error(line)
		}
	}
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestProxyEnds: at its end, connections that are open are closed.
func TestProxyEnds(t *testing.T) {
	address, lines, end := proxied(t, &proxyFlags{format: listing.Table, connections: 1}, echo(t))
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte("GET ")); err != nil {
		t.Fatal(err)
	}
	<-lines // open
	if err := end(); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the connection is open: %v", err)
	}
}

// TestProxyOutput: output that fails ends the proxy, and output that is slow does not stop it.
func TestProxyOutput(t *testing.T) {
	f := &proxyFlags{format: listing.JSON, connections: 1, count: 1}
	p := &proxy{flags: f, events: nil}
	p.emit(traffic.Event{}) // there is no reader: it is dropped
	if p.dropped.Load() != 1 {
		t.Errorf("%d events were dropped", p.dropped.Load())
	}
	for line, want := range map[string]string{
		"proxy tcp://127.0.0.1:0 http://h:1":                       "want tcp://host:port",
		"proxy --payload=-1 tcp://127.0.0.1:0 tcp://h:1":           "--payload 0 to",
		"proxy --connections 0 tcp://127.0.0.1:0 tcp://h:1":        "--connections must be above 0",
		"proxy :// tcp://h:1":                                      "target",
		"proxy --output xml tcp://127.0.0.1:0 tcp://127.0.0.1:999": "want one of",
	} {
		if code, out, errs := cli(t, strings.Fields(line)...); code != exitUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d, %q, %q; want %q", line, code, out, errs, want)
		}
	}
}
