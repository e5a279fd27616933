package client_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

type Args struct{ A, B int }
type Reply struct{ C int }
type Arith int

func (*Arith) Mul(args *Args, reply *Reply) error {
	reply.C = args.A * args.B
	return nil
}

func (*Arith) Divide(a, b int) (quo, rem int, err error) {
	if b == 0 {
		return 0, 0, errors.New("divide by zero")
	}
	return a / b, a % b, nil
}

// methods registers the methods that most tests call.
func methods(srv *server.Server) error {
	return errors.Join(
		srv.Register(new(Arith)),
		server.Handle(srv, "Test.Echo", echo),
		server.Handle(srv, "Test.Panic", func(context.Context, *[]byte) (*[]byte, error) { panic("secret") }),
		server.Handle(srv, "Test.Wait", wait),
		server.Handle(srv, "Test.Who", func(ctx context.Context, _ *[]byte) (*[]byte, error) {
			call := tandem.FromContext(ctx)
			call.Trailer = tandem.Metadata{"served-by": {"test"}}
			b := []byte(fmt.Sprintf("%s %s %v", call.Peer.Addr.Network(), call.Metadata.Get("token"), call.Deadline.IsZero()))
			return &b, nil
		}),
		server.Handle(srv, "Test.CallBack", func(ctx context.Context, in *[]byte) (*[]byte, error) {
			return client.Invoke[[]byte](ctx, server.Peer(ctx), "Client.Upper", in, client.Codec("raw"))
		}),
		server.HandleStream(srv, "Test.Talk", talk),
		server.HandleStream(srv, "Test.Count", count),
		server.HandleStream(srv, "Test.Sum", sum))
}

func echo(_ context.Context, in *[]byte) (*[]byte, error) { return in, nil }

func wait(ctx context.Context, _ *[]byte) (*[]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// talk sends back what it receives, until it is asked to fail.
func talk(_ context.Context, s *tandem.Stream[[]byte, []byte]) error {
	for m, err := range s.All() {
		if err != nil {
			return err
		}
		if string(*m) == "fail" {
			return tandem.Errorf(tandem.OutOfRange, "asked to")
		}
		if err := s.Send(m); err != nil {
			return err
		}
	}
	return nil
}

// count receives a number and sends as many.
func count(_ context.Context, s *tandem.Stream[int, int]) error {
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

// sum receives numbers and sends their sum.
func sum(_ context.Context, s *tandem.Stream[int, int]) error {
	total := 0
	for n, err := range s.All() {
		if err != nil {
			return err
		}
		total += *n
	}
	return s.Send(&total)
}

// serve starts a server on a TCP port of its own, with the methods that
// register adds, and returns it and its address. It ends with the test.
func serve(t testing.TB, register func(*server.Server) error, opts ...server.Option) (*server.Server, string) {
	t.Helper()
	srv, addr := serveOn(t, transport.TCP(), "127.0.0.1:0", register, opts...)
	return srv, addr.String()
}

// serveOn does the same on any network.
func serveOn(t testing.TB, network tandem.Transport, address string, register func(*server.Server) error, opts ...server.Option) (*server.Server, net.Addr) {
	t.Helper()
	srv := server.New(append(opts, server.WithLogger(slog.New(slog.DiscardHandler)))...)
	if err := register(srv); err != nil {
		t.Fatal(err)
	}
	ln, err := network.Listen(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		srv.Close()
		if err := <-done; !errors.Is(err, server.ErrServerClosed) {
			t.Error(err)
		}
	})
	return srv, ln.Addr()
}

func dial(t testing.TB, target string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial(target, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// modes runs f over every transport.
func modes(t *testing.T, f func(t *testing.T, c *client.Client), opts ...client.Option) {
	mem := transport.NewMemory()
	for name, m := range map[string]struct {
		network tandem.Transport
		address string
		opt     client.Option
	}{
		"tcp":  {transport.TCP(), "127.0.0.1:0", client.WithTimeout(5 * time.Second)},
		"unix": {transport.Unix(), filepath.Join(t.TempDir(), "s"), client.WithTimeout(5 * time.Second)},
		"mem":  {mem, "a", client.WithTransport("mem", mem)},
	} {
		t.Run(name, func(t *testing.T) {
			_, addr := serveOn(t, m.network, m.address, methods)
			f(t, dial(t, name+"://"+addr.String(), append(opts, m.opt)...))
		})
	}
}

// untilOK repeats a call until it succeeds.
func untilOK(t testing.TB, call func() error) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) { // polls a condition
		err := call()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
