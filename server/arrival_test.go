//go:build linux && !386 && !s390x

package server_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// tardy is a protocol that reads a request some time after it has arrived.
type tardy struct{ after time.Duration }

func (tardy) Name() string                { return "tardy" }
func (tardy) Match([]byte) server.Verdict { return server.Yes }

func (p tardy) Serve(ctx context.Context, c *server.Conn) error {
	time.Sleep(p.after) // by the kernel's clock
	if _, err := c.Read(make([]byte, 1)); err != nil {
		return err
	}
	call := &tandem.Call{Method: "Test.Left", Deadline: time.Now().Add(time.Second), Body: noBody{}}
	done := make(chan error, 1)
	c.Go(ctx, call, func(err error) { done <- err })
	return <-done
}

// noBody is the Body of a call without arguments and results.
type noBody struct{}

func (noBody) Decode(any) error             { return nil }
func (noBody) Encode(any) error             { return nil }
func (noBody) Stream() tandem.MessageStream { return nil }

// A call's timeout begins when its request arrives at the host, and not when it is read.
func TestTimeoutBeginsWithArrival(t *testing.T) {
	const after = 100 * time.Millisecond
	left := make(chan time.Duration, 1)
	srv := server.New(server.WithProtocols(tardy{after}))
	err := srv.RegisterFunc("Test.Left", func(ctx context.Context) {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	defer func() { _ = srv.Close(); <-served }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "x"); err != nil {
		t.Fatal(err)
	}
	if got, most := <-left, time.Second-after*8/10; got > most {
		t.Errorf("%v are left of a second, want %v at most", got, most)
	}
}
