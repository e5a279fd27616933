package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/tandem-rpc/tandem/server"
)

// A connection that did not come from a listener is served by the protocol that it is known to
// speak.
func ExampleServer_ServeProtocol() {
	srv := server.New()
	check(srv.RegisterFunc("Math.Double", func(n int) int { return 2 * n }))
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- srv.ServeProtocol(far, talk{}) }()

	fmt.Fprintln(near, "CALL Math.Double 21")
	answer, err := bufio.NewReader(near).ReadString('\n')
	fmt.Print(answer)
	check(err)
	check(near.Close())
	fmt.Println(<-served)
	check(srv.Shutdown(context.Background()))
	// Output:
	// 42
	// <nil>
}

// Connections of ServeProtocol count towards WithMaxConnections, are drained, and are refused
// when there are too many or the server has ended.
func TestServeProtocol(t *testing.T) {
	srv := server.New(server.WithMaxConnections(1))
	entered, leave := make(chan struct{}), make(chan struct{})
	if err := srv.RegisterFunc("T.Wait", func(s string) string { close(entered); <-leave; return s }); err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	served := make(chan error, 1)
	go func() { served <- srv.ServeProtocol(far, talk{}) }()
	fmt.Fprintln(near, "CALL T.Wait x")
	<-entered
	if err := srv.ServeProtocol(closedPipe(t), talk{}); err == nil {
		t.Error("one more connection than there may be is served")
	}
	stopped := make(chan error, 1)
	go func() { stopped <- srv.Shutdown(t.Context()) }()
	close(leave)
	if answer, err := bufio.NewReader(near).ReadString('\n'); answer != "x\n" {
		t.Errorf("%q, %v", answer, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := srv.ServeProtocol(closedPipe(t), talk{}); !errors.Is(err, server.ErrServerClosed) {
		t.Error(err)
	}
	if err := server.New(server.WithProtocols(talk{}, talk{})).ServeProtocol(closedPipe(t), talk{}); err == nil {
		t.Error("a server whose options can't work serves")
	}
}

// closedPipe returns an end that must be closed when the test has ended.
func closedPipe(t *testing.T) net.Conn {
	t.Helper()
	near, far := net.Pipe()
	t.Cleanup(func() {
		if _, err := near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("a connection that was refused is open: %v", err)
		}
	})
	return far
}
