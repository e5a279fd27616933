package main

import (
	"bufio"
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// followedCommand is a command that runs in this process.
type followedCommand struct {
	t      *testing.T
	lines  chan string
	cancel context.CancelFunc
	ended  chan int
}

// inBackground begins a command, whose output and errors are both lines.
func inBackground(t *testing.T, args ...string) *followedCommand {
	t.Helper()
	out, in := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	b := &followedCommand{t, make(chan string), cancel, make(chan int, 1)}
	go func() {
		b.ended <- run(ctx, &shell{out: in, err: in}, args)
		in.Close()
	}()
	go func() {
		defer close(b.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			b.lines <- lines.Text()
		}
	}()
	t.Cleanup(b.end)
	return b
}

// until repeats f, unless it is nil, until a line has that text.
func (b *followedCommand) until(want string, f func()) {
	b.t.Helper()
	for {
		if f != nil {
			f()
		}
		select {
		case line, ok := <-b.lines:
			if !ok {
				b.t.Fatalf("the command has ended without %q", want)
			}
			if strings.Contains(line, want) {
				return
			}
		case <-time.After(100 * time.Millisecond): // the next try
		}
	}
}

// end interrupts the command.
func (b *followedCommand) end() {
	b.cancel()
	for range b.lines { // it blocks until it is read
	}
	if code := <-b.ended; code != exitInterrupted {
		b.t.Errorf("exit %d", code)
	}
}

func makeCall(t *testing.T, args ...string) {
	t.Helper()
	if code, _, errs := cli(t, append([]string{"call"}, args...)...); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
}

// tandem top goes on while no instance answers, and shows those that are listed later.
func TestTopFollowsTheList(t *testing.T) {
	list := "file://" + filepath.ToSlash(t.TempDir())
	first := startServe(t, "--registry", list, "--id", "cart-1")
	top := inBackground(t, "top", "--every", "100ms", list)
	makeCall(t, list, "Arith.Div", "[17,5]", "-n")
	top.until("Arith.Div", nil)
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	top.until("no instance answers", nil)
	startServe(t, "--registry", list, "--id", "cart-2")
	makeCall(t, list, "Arith.Mul", `{"A":7,"B":8}`)
	top.until("Arith.Mul", nil)
}

// tandem tap goes on while an instance is away, and shows calls of those that are listed later.
func TestTapFollowsTheList(t *testing.T) {
	list := "file://" + filepath.ToSlash(t.TempDir())
	first := startServe(t, "--registry", list, "--id", "cart-1")
	tap := inBackground(t, "tap", "--method", "Arith.*", list)
	tap.until("Arith.Div", func() { makeCall(t, list, "Arith.Div", "[17,5]", "-n") })
	time.Sleep(time.Second) // a tap that breaks sooner is not begun again
	if err := first.end(); err != nil {
		t.Fatal(err)
	}
	startServe(t, "--registry", list, "--id", "cart-2")
	tap.until("Arith.Mul", func() { makeCall(t, list, "Arith.Mul", `{"A":7,"B":8}`) })
}
