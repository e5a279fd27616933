package client_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func TestFailover(t *testing.T) {
	good, goodAddr := serve(t, methods)
	_, otherAddr := serve(t, methods)
	var attempts atomic.Int64
	count := client.WithAttemptInterceptors(func(next tandem.Func) tandem.Func {
		return func(ctx context.Context, call *tandem.Call) error {
			attempts.Add(1)
			return next(ctx, call)
		}
	})
	c := dial(t, "static://"+goodAddr+","+otherAddr, client.WithFailMode(client.Failover), count)
	for i := range 200 {
		if i == 60 {
			good.Close() // abruptly: calls in flight would be lost
		}
		r, err := client.Invoke[Reply](context.Background(), c, "Arith.Mul", &Args{i, 3}, client.Idempotent())
		if err != nil || r.C != 3*i {
			t.Fatalf("call %d: %v", i, err)
		}
	}
	t.Logf("%d attempts", attempts.Load())
}

func TestDeadTarget(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := ln.Addr().String()
	ln.Close()
	c := dial(t, "tcp://"+addr, client.WithWait(0))
	start := time.Now()
	err = c.Call(context.Background(), "Arith.Mul", &Args{1, 2}, nil)
	if tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) || time.Since(start) > time.Second {
		t.Errorf("got %v after %v", err, time.Since(start))
	}
	if _, err := client.Dial("nowhere://x"); tandem.CodeOf(err) != tandem.InvalidArgument {
		t.Errorf("got %v", err)
	}
	var e *tandem.Error
	for _, err := range []error{
		c.Call(context.Background(), "Arith.Mul", &Args{1, 2}, nil, client.Codec("none")),
		c.Call(context.Background(), "Arith.Mul", func() {}, nil),
		c.Call(context.Background(), "Arith.Mul", 1, nil, client.Instance("none")),
	} {
		if !errors.As(err, &e) || !e.NotExecuted {
			t.Errorf("got %v", err)
		}
	}
}

func TestReconnect(t *testing.T) {
	mem := transport.NewMemory()
	srv, _ := serveOn(t, mem, "a", methods)
	c := dial(t, "mem://a", client.WithTransport("mem", mem), client.WithConnections(client.Connections{Backoff: time.Millisecond, MaxBackoff: 20 * time.Millisecond}))
	call := func() error { return c.Call(context.Background(), "Arith.Mul", &Args{1, 2}, nil) }
	if err := call(); err != nil {
		t.Fatal(err)
	}
	srv.Close()
	if err := call(); tandem.CodeOf(err) != tandem.Unavailable {
		t.Errorf("got %v", err)
	}
	serveOn(t, mem, "a", methods)
	untilOK(t, call)
}

func TestSeveralConnections(t *testing.T) {
	_, addr := serve(t, methods)
	c := dial(t, "tcp://"+addr, client.WithConnections(client.Connections{PerInstance: 4}), client.WithCompression(client.Compression{Usual: compress.Gzip()}))
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			r, err := client.Invoke[Reply](context.Background(), c, "Arith.Mul", &Args{i, 2})
			if err != nil || r.C != 2*i {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// If a client is closed while its calls run, all of them end.
func TestCloseWhileCalling(t *testing.T) {
	const calls = 20
	running := make(chan struct{}, calls)
	_, addr := serve(t, func(srv *server.Server) error {
		return server.Handle(srv, "Test.Wait", func(ctx context.Context, in *[]byte) (*[]byte, error) {
			running <- struct{}{}
			return wait(ctx, in)
		})
	})
	c := dial(t, "tcp://"+addr, client.WithWait(0))
	var wg sync.WaitGroup
	for range calls {
		wg.Go(func() {
			err := c.Call(context.Background(), "Test.Wait", []byte{}, nil, client.Codec("raw"), client.Timeout(time.Minute))
			if tandem.CodeOf(err) != tandem.Unavailable {
				t.Errorf("got %v", err)
			}
		})
	}
	for range calls {
		<-running
	}
	c.Close()
	wg.Wait()
	if err := c.Call(context.Background(), "Test.Wait", nil, nil); tandem.CodeOf(err) != tandem.Unavailable {
		t.Errorf("got %v", err)
	}
}

// A call that waits for an instance which then leaves the registry goes to another one: nothing
// was executed.
func TestInstanceLeavesWhileConnecting(t *testing.T) {
	list := registry.NewMemory()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never speaks
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := list.Register(context.Background(), tandem.Instance{
		ID: "a", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: silent.Addr().String()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, "memory://x", client.WithResolver("memory", list))
	var reply Reply
	waiting := c.Go(context.Background(), "Arith.Mul", &Args{7, 8}, &reply, nil)
	_, addr := serve(t, methods)
	if _, err := list.Register(context.Background(), tandem.Instance{
		ID: "b", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: addr}},
	}); err != nil {
		t.Fatal(err)
	}
	untilOK(t, func() error { // b is connected
		return c.Call(context.Background(), "Arith.Mul", &Args{1, 1}, nil, client.Timeout(100*time.Millisecond))
	})
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	if p := <-waiting.Done; p.Error != nil || reply.C != 56 {
		t.Errorf("got %v, %v", reply, p.Error)
	}
}
