package transport_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/testcert"
	"github.com/tandem-rpc/tandem/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type network struct {
	server, client tandem.Transport
	address        string
}

func networks(t *testing.T) map[string]network {
	serverTLS, clientTLS := testcert.Pair(t, "a") // as the address in memory
	mem := transport.NewMemory()
	return map[string]network{
		"tcp":      {transport.TCP(), transport.TCP(), "127.0.0.1:0"},
		"unix":     {transport.Unix(), transport.Unix(), filepath.Join(t.TempDir(), "s")},
		"tls":      {transport.TLS(transport.TCP(), serverTLS), transport.TLS(transport.TCP(), clientTLS), "127.0.0.1:0"},
		"memory":   {mem, mem, "a"},
		"tls over": {transport.TLS(mem, serverTLS), transport.TLS(mem, clientTLS), "a"},
	}
}

// Every transport carries the same bytes, by plain and by lazy reads, and reports the end.
func TestTransports(t *testing.T) {
	for name, n := range networks(t) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			ln, err := n.server.Listen(ctx, n.address)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			echoed := make(chan error, 1)
			go func() { echoed <- echoOne(ln) }()
			c, err := n.client.Dial(ctx, ln.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			conn := transport.Wrap(c)
			defer conn.Close()
			data := bytes.Repeat([]byte("0123456789abcdef"), 40_000)
			go func() {
				if _, err := conn.WriteBy(data, time.Now().Add(10*time.Second)); err != nil {
					t.Error(err)
				}
				if err := conn.CloseWrite(); err != nil {
					t.Error(err)
				}
			}()
			got, err := readAll(conn)
			if !errors.Is(err, io.EOF) || !bytes.Equal(got, data) {
				t.Errorf("%d of %d bytes, %v", len(got), len(data), err)
			}
			if err := <-echoed; err != nil {
				t.Error(err)
			}
		})
	}
}

func echoOne(ln net.Listener) error {
	c, err := ln.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = io.Copy(c, c)
	return err
}

// readAll reads lazily and checks that no buffer is held in between.
func readAll(c *transport.Conn) (all []byte, err error) {
	var l lender
	for {
		buf, n, err := c.ReadLazy(&l)
		if err != nil {
			if l.taken != 0 {
				return all, fmt.Errorf("%d buffers held at the end: %w", l.taken, err)
			}
			return all, err
		}
		all = append(all, buf[:n]...)
		l.Give(buf)
	}
}

// lender counts the buffers that it has lent.
type lender struct{ taken int }

func (l *lender) Take() []byte { l.taken++; return make([]byte, 8<<10) }
func (l *lender) Give([]byte)  { l.taken-- }

func TestTryWriteDoesNotWait(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	raw, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c := transport.Wrap(raw)
	defer c.Close()
	if !c.CanTry() {
		if runtime.GOOS == "linux" {
			t.Fatal("a TCP connection can't be written to without waiting")
		}
		t.Skip("no raw connections on this system")
	}
	chunk, total := make([]byte, 1<<20), 0
	for range 200 { // the peer does not read: the socket fills up
		n, err := c.TryWrite(chunk)
		if err != nil {
			t.Fatal(err)
		}
		if total += n; n < len(chunk) {
			return
		}
	}
	t.Errorf("%d bytes were written to a socket that is not read", total)
}

func TestStrangersAreNotTrusted(t *testing.T) {
	serverTLS, _ := testcert.Pair(t, "a")
	ln, err := transport.TLS(transport.TCP(), serverTLS).Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() { _ = echoOne(ln) }()
	_, err = transport.TLS(transport.TCP(), nil).Dial(context.Background(), ln.Addr().String())
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); !ok || !strings.Contains(err.Error(), "RootCAs") {
		t.Errorf("got %v", err)
	}
}

// A certificate that has expired, is not valid yet, is of another host, is for another purpose,
// or has no trusted issuer, is refused: a server's by the client, and a client's by the server.
func TestBadCertificates(t *testing.T) {
	only := func(use x509.ExtKeyUsage) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{use} }
	}
	over := func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }
	early := func(c *x509.Certificate) { c.NotBefore = time.Now().Add(30 * time.Minute) }
	for name, spoil := range map[string]func(*x509.Certificate){
		"over": over, "early": early, "another purpose": only(x509.ExtKeyUsageClientAuth),
		"another host": func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"b.example"} },
		"no host":      func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, nil }, // the common name does not count
	} {
		server, client := testcert.Spoiled(t, "a.example", spoil)
		if err := shakeHands(t, server, client); err == nil {
			t.Errorf("a server whose certificate is spoiled, %s, was taken", name)
		} else if strings.Contains(name, "host") != strings.Contains(err.Error(), "ServerName") {
			t.Errorf("%s: advice that does not fit, or none: %v", name, err)
		}
	}
	for name, spoil := range map[string]func(*x509.Certificate){
		"over": over, "early": early, "another purpose": only(x509.ExtKeyUsageServerAuth),
	} {
		server, client := testcert.Pair(t, "a.example")
		bad, own := testcert.Spoiled(t, "client", spoil)
		server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, bad.ClientCAs
		client.Certificates = own.Certificates
		if err := shakeHands(t, server, client); err == nil {
			t.Errorf("a client whose certificate is spoiled, %s, was taken", name)
		}
	}
	server, client := testcert.Pair(t, "a.example")
	server.ClientAuth = tls.RequireAndVerifyClientCert
	if err := shakeHands(t, server, client); err != nil {
		t.Errorf("what is not spoiled was refused: %v", err)
	}
	client.MinVersion, client.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	server.MinVersion = 0
	if err := shakeHands(t, server, client); err == nil {
		t.Error("TLS 1.1 was taken")
	}
}

// shakeHands connects, sends a byte and reads it back.
func shakeHands(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	ln, err := transport.TLS(transport.TCP(), server).Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	echoed := make(chan error, 1)
	go func() { echoed <- echoOne(ln) }()
	defer func() {
		_ = ln.Close()
		<-echoed
	}()
	c, err := transport.TLS(transport.TCP(), client).Dial(t.Context(), ln.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte{1}); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 1))
	return err
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	u := transport.Unix()
	if _, err := u.Listen(context.Background(), path); err == nil {
		t.Fatal("a socket in use was taken over")
	}
	ln.SetUnlinkOnClose(false) // as a killed process leaves it
	ln.Close()
	again, err := u.Listen(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if err := os.WriteFile(path, []byte("a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := u.Listen(context.Background(), path); err == nil {
		t.Error("a file that is no socket was removed")
	}
}

func TestMemoryDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := transport.Pipe(nil, nil)
		start := time.Now()
		if err := a.SetReadDeadline(start.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("read: %v after %v", err, time.Since(start))
		}
		if err := a.SetDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := a.Write(make([]byte, 1<<20))
		if !errors.Is(err, os.ErrDeadlineExceeded) || n != 64<<10 {
			t.Errorf("write: %d bytes, %v", n, err)
		}
		a.Close()
		b.Close()
	})
}

// engine reads a connection and delivers the bytes, as an event loop does.
type engine struct{ net.Conn }

func (e engine) OnData(fn func([]byte, error) error) {
	go func() {
		buf := make([]byte, 1000)
		for {
			n, err := e.Conn.Read(buf)
			if n > 0 && fn(buf[:n], nil) != nil {
				return
			}
			if err != nil {
				_ = fn(nil, err)
				return
			}
		}
	}()
}

func TestPushedBytes(t *testing.T) {
	a, b := transport.Pipe(nil, nil)
	conn := transport.Wrap(engine{a})
	data := bytes.Repeat([]byte("pushed "), 50_000)
	go func() {
		_, _ = b.Write(data)
		b.Close()
	}()
	got, err := readAll(conn)
	if !errors.Is(err, io.EOF) || !bytes.Equal(got, data) {
		t.Errorf("%d of %d bytes, %v", len(got), len(data), err)
	}
	conn.Close()
}

func ExampleNewMemory() {
	network := transport.NewMemory() // a value: both sides need this one
	ln, err := network.Listen(context.Background(), "greeter")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprint(c, "hello")
	}()
	c, err := network.Dial(context.Background(), "greeter")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	b, err := io.ReadAll(c)
	fmt.Println(string(b), err)
	// Output: hello <nil>
}
