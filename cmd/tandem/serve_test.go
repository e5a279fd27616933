package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/services"
	"github.com/tandem-rpc/tandem/registry"
)

// running is a serve command in this process.
type running struct {
	target  string
	signals chan os.Signal
	lines   *bufio.Scanner
	ended   chan error
}

// startServe runs serve until the test ends.
func startServe(t *testing.T, args ...string) *running {
	t.Helper()
	out, in := io.Pipe()
	sh := &shell{out: in, err: io.Discard}
	var f serveFlags
	set := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	f.add(set)
	if err := set.Parse(append([]string{"--listen", "tcp://127.0.0.1:0"}, args...)); err != nil {
		t.Fatal(err)
	}
	cfg, err := f.config()
	if err != nil {
		t.Fatal(err)
	}
	r := &running{signals: make(chan os.Signal, 2), ended: make(chan error, 1), lines: bufio.NewScanner(out)}
	go func() {
		r.ended <- serve(sh, cfg, r.signals)
		in.Close()
	}()
	r.lines.Scan()
	rest, ok := strings.CutPrefix(r.lines.Text(), "serving ")
	if !ok {
		t.Fatalf("serve says %q, ended with %v", r.lines.Text(), <-r.ended)
	}
	r.target, _, _ = strings.Cut(rest, ": ")
	t.Cleanup(func() { r.end() })
	return r
}

// end drains the server, if it runs, and returns how it ended.
func (r *running) end() error {
	select {
	case r.signals <- syscall.SIGTERM:
	default:
	}
	for r.lines.Scan() { // serve blocks until its output is read
	}
	select {
	case err := <-r.ended:
		r.ended <- err
		return err
	case <-time.After(5 * time.Second):
		return context.DeadlineExceeded
	}
}

func TestServeDrains(t *testing.T) {
	r := startServe(t)
	c, err := client.Dial(r.target)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := client.Stream[services.Line, services.Line](t.Context(), c, services.Talk)
	if err != nil {
		t.Fatal(err)
	}
	r.signals <- syscall.SIGTERM
	if r.lines.Scan(); !strings.HasPrefix(r.lines.Text(), "draining") {
		t.Errorf("it says %q", r.lines.Text())
	}
	// The stream continues while the server drains, and ends without an error.
	if err := s.Send(&services.Line{Text: "still here"}); err != nil {
		t.Error(err)
	}
	if line, err := s.Recv(); err != nil || line.Text != "you said: still here" {
		t.Errorf("got %v, %v", line, err)
	}
	if err := s.CloseSend(); err != nil {
		t.Error(err)
	}
	for line, err := range s.All() {
		t.Errorf("got %v, %v", line, err)
	}
	s.Close()
	if err := <-r.ended; err != nil {
		t.Errorf("ended with %v", err)
	}
	r.ended <- nil
}

func TestServeEndsAtTheSecondSignal(t *testing.T) {
	r := startServe(t)
	c, err := client.Dial(r.target)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := client.Stream[services.Line, services.Line](t.Context(), c, services.Talk)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	r.signals <- syscall.SIGTERM
	r.signals <- syscall.SIGTERM
	if err := r.end(); exitCode(err) != exitInterrupted {
		t.Errorf("ended with %v", err)
	}
}

func TestServeDrainTimeout(t *testing.T) {
	r := startServe(t, "--drain", "50ms")
	c, err := client.Dial(r.target)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := client.Stream[services.Line, services.Line](t.Context(), c, services.Talk)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := r.end(); exitCode(err) != exitFailed || !strings.Contains(err.Error(), "still running after 50ms") {
		t.Errorf("ended with %v", err)
	}
}

func TestServeInARegistry(t *testing.T) {
	list := "file://" + filepath.ToSlash(t.TempDir())
	startServe(t, "--registry", list)
	code, out, errs := cli(t, "call", list, "Arith.Mul", `{"A":7,"B":8}`)
	if code != exitOK || out != "{\"C\":56}\n" {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
}

// silent is a registry that does not answer.
type silent struct{}

func (silent) Register(ctx context.Context, _ tandem.Instance) (registry.Registration, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestServeSaysThatItIsNotListed(t *testing.T) {
	errs, in := io.Pipe()
	cfg := &serveConfig{network: "tcp", address: "127.0.0.1:0", registrar: silent{}, drain: time.Second}
	signals, ended := make(chan os.Signal, 1), make(chan error, 1)
	go func() {
		ended <- serve(&shell{out: io.Discard, err: in}, cfg, signals)
		in.Close()
	}()
	lines := bufio.NewScanner(errs)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "not listed yet: ") {
		t.Errorf("serve says %q", lines.Text())
	}
	signals <- syscall.SIGTERM
	for lines.Scan() { // serve blocks until it is read
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
