// Package interop_test runs clients in other languages, written from
// docs/reference/protocol.md alone, against a real server.
package interop_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPython runs the Python client's tests. Each class has its own server.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatalf("%v: the test needs a client in another language: install Python (apt-get install python3)", err)
	}
	for _, class := range []string{"Unary", "Errors", "GivingUp", "Large", "OneWay", "Streams", "Connections", "Goaway"} {
		t.Run(class, func(t *testing.T) {
			addr, shutdown := serve(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, python, "-B", "-X", "dev", "test_tandem.py", class)
			cmd.Dir = "python"
			cmd.Env = append(cmd.Environ(), "TANDEM_SERVER="+addr)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			if class == "Goaway" { // the client has closed its connection, so Shutdown must return
				checkShutdown(t, shutdown)
			}
		})
	}
}

func checkShutdown(t *testing.T, shutdown <-chan error) {
	t.Helper()
	select {
	case err := <-shutdown:
		if err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Shutdown does not return")
	}
}

// serve starts a server with the methods that the clients call. A client can make it shut down;
// the channel then delivers the result of Shutdown.
func serve(t *testing.T) (addr string, shutdown <-chan error) {
	t.Helper()
	srv := server.New(server.WithLogger(slog.New(slog.DiscardHandler)))
	m := &methods{srv: srv, held: map[string]chan struct{}{}, notes: make(chan int, 16), shutdown: make(chan error, 1)}
	m.register(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, server.ErrServerClosed) {
			t.Error(err)
		}
		m.wg.Wait()
	})
	return ln.Addr().String(), m.shutdown
}

// methods has the methods of the server. The clients' tests use them.
type methods struct {
	srv      *server.Server
	notes    chan int
	shutdown chan error
	wg       sync.WaitGroup

	mu   sync.Mutex
	held map[string]chan struct{}
}

func (m *methods) register(t *testing.T) {
	t.Helper()
	for name, f := range map[string]any{
		"Echo":     func(s string) string { return s },
		"Twice":    func(n int) int { return 2 * n },
		"Nothing":  func() {},
		"Large":    func(n int) string { return strings.Repeat("x", n) },
		"Panic":    func(secret string) { panic(secret) },
		"Fail":     fail,
		"Busy":     busy,
		"TimeLeft": timeLeft,
		"Metadata": metadata,
		"CallBack": callBack,
		"Hold":     m.hold,
		"Release":  m.release,
		"Note":     func(s string) { m.notes <- len(s) },
		"Noted":    m.noted,
		"Shutdown": m.shutDown,
		"Talk":     talk,
		"Count":    count,
		"Sum":      sum,
		"Deaf":     deaf,
	} {
		if err := m.srv.RegisterFunc("Test."+name, f); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.srv.Register(new(Arith)); err != nil {
		t.Fatal(err)
	}
}

// Arith is net/rpc's example.
type Arith struct{}

// Args are the arguments of Mul.
type Args struct{ A, B int }

// Reply is the result of Mul.
type Reply struct{ C int }

// Mul has the signature of net/rpc's methods.
func (Arith) Mul(args *Args, reply *Reply) error {
	reply.C = args.A * args.B
	return nil
}

// Divide has two arguments and two results.
func (Arith) Divide(a, b int) (quo, rem int, err error) {
	if b == 0 {
		return 0, 0, errors.New("divide by zero")
	}
	return a / b, a % b, nil
}

func fail(message string) error {
	return tandem.Errorf(tandem.NotFound, "%s", message).WithDetail("order", []byte{17}).WithDetail("hint", nil)
}

// busy returns an error with a retry delay of us microseconds.
func busy(us int) error {
	return tandem.Errorf(tandem.ResourceExhausted, "busy").WithDetail("hint", nil).WithRetryAfter(time.Duration(us) * time.Microsecond)
}

// timeLeft returns the time until the deadline in seconds, 0 without a deadline.
func timeLeft(ctx context.Context) float64 {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	return time.Until(deadline).Seconds()
}

func metadata(ctx context.Context) map[string][]string {
	call := tandem.FromContext(ctx)
	call.Trailer = tandem.Metadata{"server": {"go"}}
	m := call.Metadata.Clone()
	m.Set("attempt", strconv.Itoa(call.Attempt))
	return m
}

// callBack calls a method of the client.
func callBack(ctx context.Context, method string) string {
	err := server.Peer(ctx).Call(ctx, method, "hello", nil)
	return fmt.Sprintf("%v, not executed: %v", err, !tandem.MayHaveExecuted(err))
}

func (m *methods) gate(name string) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held[name] == nil {
		m.held[name] = make(chan struct{})
	}
	return m.held[name]
}

// hold blocks until release is called with the same name.
func (m *methods) hold(ctx context.Context, name string) (string, error) {
	select {
	case <-m.gate(name):
		return name, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (m *methods) release(name string) { close(m.gate(name)) }

// noted waits until a note of that length has arrived.
func (m *methods) noted(ctx context.Context, length int) (int, error) {
	for {
		select {
		case n := <-m.notes:
			if n == length {
				return n, nil
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

func (m *methods) shutDown() {
	m.wg.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		m.shutdown <- m.srv.Shutdown(ctx)
	})
}

// talk answers every message, and sends their number in the trailer.
func talk(ctx context.Context, s *tandem.Stream[string, string]) error {
	heard := 0
	for in, err := range s.All() {
		if err != nil {
			return err
		}
		if *in == "fail" {
			return tandem.Errorf(tandem.NotFound, "as you like")
		}
		heard++
		answer := *in + ", heard"
		if err := s.Send(&answer); err != nil {
			return err
		}
	}
	tandem.FromContext(ctx).Trailer = tandem.Metadata{"heard": {strconv.Itoa(heard)}}
	return nil
}

// count sends the numbers from 0 up to, but not including, its first message.
func count(s *tandem.Stream[int, int]) error {
	n, err := s.Recv()
	if err != nil {
		return err
	}
	for i := range *n {
		if err := s.Send(&i); err != nil {
			return err
		}
	}
	return nil
}

// sum sends the sum of all messages when there are no more.
func sum(s *tandem.Stream[int, int]) error {
	total := 0
	for {
		n, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return s.Send(&total)
		}
		if err != nil {
			return err
		}
		total += *n
	}
}

// deaf accepts a stream, and receives nothing.
func deaf(ctx context.Context, _ *tandem.Stream[int, int]) error {
	<-ctx.Done()
	return ctx.Err()
}
