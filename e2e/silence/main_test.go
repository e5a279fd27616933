//go:build linux

// Package silence tests over every transport how long a peer may be silent: a process that is
// stopped, and a network that drops everything. See [client.Connections] and ADR 0023.
package silence

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/e2e/interop/certificate"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/transport/kcp"
	"github.com/tandem-rpc/tandem/transport/nbio"
	"github.com/tandem-rpc/tandem/transport/quic"
	"github.com/tandem-rpc/tandem/transport/websocket"
)

// serveEnv is the environment variable with the network that this program serves, as a process
// that a test can stop.
const serveEnv = "SILENCE_SERVE"

func TestMain(m *testing.M) {
	if network := os.Getenv(serveEnv); network != "" {
		if err := serveProcess(network); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	before := goleak.IgnoreCurrent() // kcp-go has a scheduler for the process
	code := m.Run()
	// A connection that was closed while the network was broken ends some seconds later.
	for end := time.Now().Add(15 * time.Second); code == 0; {
		err := goleak.Find(before)
		if err == nil {
			break
		}
		if time.Now().After(end) {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// serveProcess serves a network, prints the address, and ends when its standard input does.
func serveProcess(network string) error {
	address, end, err := newServer(network)
	if err != nil {
		return err
	}
	defer end()
	fmt.Println(address)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// medium is a transport of this program, with what its user closes.
type medium struct {
	tandem.Transport

	address string // to listen on
	close   func() error
}

// newMedium returns a transport by its name. config is for those that have TLS.
func newMedium(network, dir string, config *tls.Config) (c medium, err error) {
	c = medium{Transport: transport.TCP(), address: "127.0.0.1:0", close: func() error { return nil }}
	switch network {
	case "plain":
	case "tls":
		c.Transport = transport.TLS(c.Transport, config)
	case "unix":
		c.Transport, c.address = transport.Unix(), filepath.Join(dir, "s")
	case "websocket":
		c.Transport = websocket.New(c.Transport)
	case "nbio", "nbio-unix":
		inner := c.Transport
		if network == "nbio-unix" {
			inner, c.address = transport.Unix(), filepath.Join(dir, "s")
		}
		var engine *nbio.Transport
		if engine, err = nbio.New(inner); err == nil {
			c.Transport, c.close = engine, engine.Close
		}
	case "quic":
		c.Transport, err = quic.New(config)
	case "kcp":
		c.Transport, err = kcp.New()
	default:
		err = fmt.Errorf("no transport %q", network)
	}
	return c, err
}

// waitRequest is the request of the method Wait. The handler closes the channel that waiting has
// for Name, if there is one.
type waitRequest struct{ Name string }

// newServer serves Echo, which answers, and Wait, which answers when its context ends.
func newServer(network string) (address string, end func(), err error) {
	dir, err := os.MkdirTemp("", "s") // short, as the length of a socket's path is limited
	if err != nil {
		return "", nil, err
	}
	cert, key := filepath.Join(dir, "cert"), filepath.Join(dir, "key")
	if err := certificate.Write(cert, key); err != nil {
		return "", nil, err
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return "", nil, err
	}
	c, err := newMedium(network, dir, &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		return "", nil, err
	}
	ln, err := c.Listen(context.Background(), c.address)
	if err != nil {
		return "", nil, err
	}
	srv := server.New(server.WithSilence(silence), server.WithLogger(slog.New(slog.DiscardHandler)))
	if err := errors.Join(
		server.Handle(srv, "Echo", func(_ context.Context, n *int) (*int, error) { return n, nil }),
		server.Handle(srv, "Wait", func(ctx context.Context, r *waitRequest) (*int, error) {
			<-ctx.Done()
			if ended, ok := waiting.Load(r.Name); ok {
				close(ended.(chan struct{}))
			}
			return new(int), nil
		}),
	); err != nil {
		return "", nil, err
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	return ln.Addr().String(), func() {
		_ = srv.Close()
		<-served
		_ = c.close()
		_ = os.RemoveAll(dir)
	}, nil
}

// dial returns a client of a server at an address.
func dial(t *testing.T, network, address string) *client.Client {
	t.Helper()
	c, err := newMedium(network, "", &tls.Config{InsecureSkipVerify: true}) // the server's certificate is made for each run
	if err != nil {
		t.Fatal(err)
	}
	cl, err := client.Dial("test://"+address, client.WithTransport("test", c.Transport),
		client.WithFailMode(client.Failfast), client.WithConnections(client.Connections{Silence: silence}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cl.Close(), c.close()); err != nil {
			t.Error(err)
		}
	})
	return cl
}

// start runs a server in a process of its own until the test ends.
func start(t *testing.T, network string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serveEnv+"="+network)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Signal(syscall.SIGCONT) // a test that failed may have left it stopped
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return cmd, address[:len(address)-1]
}
