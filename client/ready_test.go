package client_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/transport"
)

// A restart of the only server, in good order and within a second, costs no call, whatever
// the fail mode: a call every 5 ms, each with 5 s, and none marked as idempotent.
func TestRestartCostsNoCall(t *testing.T) {
	for _, mode := range []tandem.FailMode{client.Failfast, client.Failover, client.Failtry, client.Backup} {
		synctest.Test(t, func(t *testing.T) {
			mem := transport.NewMemory()
			first, _ := serveOn(t, mem, "a", methods)
			c := dial(t, "mem://a", client.WithTransport("mem", mem), client.WithFailMode(mode))
			var calls sync.WaitGroup
			defer calls.Wait()
			for i := range 400 {
				calls.Go(func() {
					r, err := client.Invoke[Reply](t.Context(), c, "Arith.Mul", &Args{i, 3})
					if err != nil || r.C != 3*i {
						t.Errorf("mode %v, call %d: %v", mode, i, err)
					}
				})
				time.Sleep(5 * time.Millisecond)
				switch i {
				case 60:
					calls.Go(func() {
						if err := first.Shutdown(t.Context()); err != nil {
							t.Error(err)
						}
					})
				case 240: // 900 ms later
					serveOn(t, mem, "a", methods)
				}
			}
		})
	}
}

// Calls wait for the time of WithWait after the loss; later ones fail at once.
func TestWaitCountsFromTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := transport.NewMemory()
		srv, _ := serveOn(t, mem, "a", methods)
		c := dial(t, "mem://a", client.WithTransport("mem", mem), client.WithWait(2*time.Second))
		if err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		srv.Close()
		time.Sleep(500 * time.Millisecond)
		for when, want := range []time.Duration{1500 * time.Millisecond, 0} {
			began := time.Now()
			err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil)
			took := time.Since(began)
			if tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) || took < want || took > want+300*time.Millisecond {
				t.Errorf("call %d: %v after %v, want Unavailable after %v", when, err, took, want)
			}
		}
	})
}

// Without time to wait a call fails at once, and a deadline ends a wait with an error that
// names the cause.
func TestWaitIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := transport.NewMemory()
		hasty := dial(t, "mem://a", client.WithTransport("mem", mem), client.WithWait(0))
		began := time.Now()
		err := hasty.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil)
		if tandem.CodeOf(err) != tandem.Unavailable || time.Since(began) != 0 {
			t.Errorf("without a wait: %v after %v", err, time.Since(began))
		}
		c := dial(t, "mem://a", client.WithTransport("mem", mem))
		began = time.Now()
		err = c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil, client.Timeout(time.Second))
		if tandem.CodeOf(err) != tandem.DeadlineExceeded || tandem.MayHaveExecuted(err) ||
			!strings.Contains(err.Error(), "mem://a is not reachable") || time.Since(began) != time.Second {
			t.Errorf("with a deadline: %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err = c.Call(ctx, "Arith.Mul", &Args{1, 2}, nil); tandem.CodeOf(err) != tandem.Canceled {
			t.Errorf("canceled: %v", err)
		}
	})
}

// At most 10,000 calls wait; one more is refused. Close ends them all.
func TestTooManyWaitingCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := transport.NewMemory()
		c := dial(t, "mem://a", client.WithTransport("mem", mem), client.WithWait(time.Minute), client.WithTimeout(time.Minute))
		var calls sync.WaitGroup
		for range 10_000 {
			calls.Go(func() {
				if err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil); tandem.CodeOf(err) != tandem.Unavailable {
					t.Errorf("a call that waited: %v", err)
				}
			})
		}
		synctest.Wait()
		err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil)
		if err == nil || !strings.Contains(err.Error(), "too many calls wait for a connection: 10000") || tandem.MayHaveExecuted(err) {
			t.Errorf("one more: %v", err)
		}
		c.Close()
		calls.Wait()
	})
}

// silentRegistry never lists anything.
type silentRegistry struct{}

func (silentRegistry) Watch(ctx context.Context, _ registry.Target, _ func(registry.Snapshot)) error {
	<-ctx.Done()
	return ctx.Err()
}

// The bounds apply to every wait: for the first list of a registry that does not answer, and
// for a connection that is being made.
func TestEveryWaitIsBounded(t *testing.T) {
	for name, opts := range map[string][]client.Option{
		"for the first list":               {client.WithResolver("mem", silentRegistry{})},
		"for a connection that takes time": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := dial(t, "mem://a", append(opts, client.WithTransport("mem", far{transport.NewMemory()}), client.WithTimeout(5*time.Second))...)
				var calls sync.WaitGroup
				for range 10_000 {
					calls.Go(func() {
						if err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil); tandem.CodeOf(err) != tandem.DeadlineExceeded || tandem.MayHaveExecuted(err) {
							t.Errorf("a call that waited: %v", err)
						}
					})
				}
				synctest.Wait()
				began := time.Now()
				err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil)
				if tandem.CodeOf(err) != tandem.Unavailable || !strings.Contains(err.Error(), "too many calls wait for a connection: 10000") || tandem.MayHaveExecuted(err) || time.Since(began) > 0 {
					t.Errorf("one more, after %v: %v", time.Since(began), err)
				}
				calls.Wait()
			})
		})
	}
}

// At most 64 MiB of arguments wait.
func TestTooManyWaitingBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := transport.NewMemory()
		c := dial(t, "mem://a", client.WithTransport("mem", mem))
		var refused int
		var mu sync.Mutex
		var calls sync.WaitGroup
		for range 20 {
			calls.Go(func() {
				err := c.Call(t.Context(), "Test.Echo", make([]byte, 4<<20-64), nil, client.Codec("raw"))
				mu.Lock()
				defer mu.Unlock()
				if strings.Contains(err.Error(), "too many calls wait for a connection") {
					refused++
				}
			})
		}
		calls.Wait()
		if refused < 4 || refused > 8 { // buffers are up to a quarter larger than their content
			t.Errorf("%d of 20 calls with 4 MiB were refused", refused)
		}
	})
}

// A client that starts while its registry is away waits for the first list, also after the
// registry has reported that it can't be read.
func TestRegistryThatAnswersLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, list := transport.NewMemory(), registry.NewMemory()
		serveOn(t, mem, "a", methods)
		list.Fail(errors.New("no route to the registry"))
		c := dial(t, "list://svc", client.WithTransport("mem", mem), client.WithResolver("list", list))
		time.AfterFunc(time.Second, func() {
			list.Fail(nil)
			entry, err := list.Register(context.Background(), tandem.Instance{ID: "a", Endpoints: []tandem.Endpoint{{Transport: "mem", Address: "a"}}})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { entry.Close() })
		})
		if err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil); err != nil {
			t.Errorf("the registry came after a second: %v", err)
		}
	})
}

// If a registry stays away it is the error's cause, once the time to wait is over.
func TestRegistryThatStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := registry.NewMemory()
		list.Fail(errors.New("no route to the registry"))
		c := dial(t, "list://svc", client.WithResolver("list", list))
		began := time.Now()
		err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil)
		if took := time.Since(began); tandem.CodeOf(err) != tandem.Unavailable || tandem.MayHaveExecuted(err) ||
			!strings.Contains(err.Error(), "no route to the registry") || took != 3*time.Second {
			t.Errorf("got %v after %v", err, took)
		}
	})
}

// far is a transport whose connections take six seconds, like two round trips of three seconds.
type far struct{ tandem.Transport }

func (f far) Dial(ctx context.Context, address string) (net.Conn, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(6 * time.Second):
		return f.Transport.Dial(ctx, address)
	}
}

func TestFarServerIsConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := transport.NewMemory()
		serveOn(t, mem, "a", methods)
		c := dial(t, "mem://a", client.WithTransport("mem", far{mem}), client.WithWait(20*time.Second))
		if err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil, client.Timeout(20*time.Second)); err != nil {
			t.Error(err)
		}
	})
}
