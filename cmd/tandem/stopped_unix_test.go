//go:build unix

package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/services"
)

// TestStoppedServerIsFoundOut stops a server, which then keeps its connections
// open and says nothing. The client must notice by itself: for a call whose
// answer does not come, and for a stream that waits to receive.
func TestStoppedServerIsFoundOut(t *testing.T) {
	const bound = 2600 * time.Millisecond
	s := spawn(t, "serve", "-listen", "tcp://127.0.0.1:0")
	target, _, _ := strings.Cut(strings.TrimPrefix(s.next(t), "serving "), ": ")
	c, err := client.Dial(target)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	talk, err := client.Stream[services.Line, services.Line](t.Context(), c, services.Talk)
	if err != nil {
		t.Fatal(err)
	}
	defer talk.Close()

	stop(t, s)
	start := time.Now()
	streamErr := make(chan error, 1)
	go func() {
		_, err := talk.Recv()
		streamErr <- err
	}()
	err = c.Call(t.Context(), "Arith.Mul", &services.Args{A: 7, B: 8}, nil)
	if took := time.Since(start); tandem.CodeOf(err) != tandem.Unavailable || took > bound {
		t.Errorf("call: %v after %v, want Unavailable within %v", err, took, bound)
	}
	err = <-streamErr
	if took := time.Since(start); tandem.CodeOf(err) != tandem.Unavailable || took > bound {
		t.Errorf("stream: %v after %v, want Unavailable within %v", err, took, bound)
	}

	signalTo(t, s, syscall.SIGCONT)
	signalTo(t, s, syscall.SIGTERM)
	if code := s.exit(t); code != exitOK {
		t.Errorf("exit %d, %s", code, s.errs.String())
	}
}

// stop returns when the process stands still.
func stop(t *testing.T, s *spawned) {
	t.Helper()
	signalTo(t, s, syscall.SIGSTOP)
	var status syscall.WaitStatus
	for !status.Stopped() {
		_, err := syscall.Wait4(s.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		if err != nil && err != syscall.EINTR {
			t.Fatal(err)
		}
		if status.Exited() {
			t.Fatalf("it has ended with %d", status.ExitStatus())
		}
	}
}
