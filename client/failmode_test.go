package client_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// refuse starts three instances that count calls and refuse them, not executed,
// and a client of them.
func refuse(t *testing.T, attempts *atomic.Int64, opts ...client.Option) *client.Client {
	t.Helper()
	full := server.WithInterceptors(func(tandem.Func) tandem.Func {
		return func(context.Context, *tandem.Call) error {
			attempts.Add(1)
			return &tandem.Error{Code: tandem.ResourceExhausted, Message: "not now", NotExecuted: true}
		}
	})
	mem := transport.NewMemory()
	for _, address := range []string{"a", "b", "c"} {
		serveOn(t, mem, address, methods, full)
	}
	c := dial(t, "static://a,b,c?transport=mem", append(opts, client.WithTransport("mem", mem))...)
	synctest.Wait() // all are connected
	return c
}

// Failfast makes one attempt, Failover goes to another instance each time, Failtry to the same
// one.
func TestWhereFailModesGo(t *testing.T) {
	for name, c := range map[string]struct {
		mode                tandem.FailMode
		attempts, instances int
	}{
		"failfast": {client.Failfast, 1, 1},
		"failover": {client.Failover, 3, 3},
		"failtry":  {client.Failtry, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var went []string
				note := client.WithAttemptInterceptors(func(next tandem.Func) tandem.Func {
					return func(ctx context.Context, call *tandem.Call) error {
						err := next(ctx, call)
						went = append(went, call.Peer.Instance)
						return err
					}
				})
				cl := refuse(t, new(atomic.Int64), note, client.WithBalancer(balance.Random())) // which could choose any instance
				for range 20 {
					went = nil
					err := cl.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil, client.FailMode(c.mode), client.Timeout(time.Minute))
					if tandem.CodeOf(err) != tandem.ResourceExhausted {
						t.Error(err)
					}
					attempts := len(went)
					slices.Sort(went)
					if went = slices.Compact(went); attempts != c.attempts || len(went) != c.instances {
						t.Errorf("%d attempts at %v, want %d at %d", attempts, went, c.attempts, c.instances)
					}
				}
			})
		})
	}
}

// Retries are bounded by default, so that overload does not get three times as many calls. The
// budget is 10 % of the calls that succeed, here none, and 10 a second, and begins with ten
// seconds' worth.
func TestDefaultRetryBudget(t *testing.T) {
	for name, mode := range map[string]tandem.FailMode{"failover": client.Failover, "failtry": client.Failtry} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const calls = 1000
				var attempts atomic.Int64
				c := refuse(t, &attempts, client.WithFailMode(mode))
				start := time.Now()
				for range calls {
					if err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil); tandem.CodeOf(err) != tandem.ResourceExhausted {
						t.Fatal(err)
					}
				}
				seconds := int64(time.Since(start) / time.Second)
				most := calls + 10*seconds + 10*10 + 10 // the last for a second that has begun
				if n := attempts.Load(); n > most || n < calls+10*10 {
					t.Errorf("%d attempts for %d calls in %d s, at most %d allowed", n, calls, seconds, most)
				}
			})
		})
	}
}

// A retry sends the same arguments as the first attempt, although a waiting call keeps no
// message: to the same instance, to another one, in the background, and compressed.
func TestRetrySendsTheArguments(t *testing.T) {
	for name, opt := range map[string]client.Option{
		"failtry":    client.WithFailMode(client.Failtry),
		"failover":   client.WithFailMode(client.Failover),
		"failback":   client.WithFailMode(client.Failback),
		"compressed": client.WithCompression(client.Compression{Usual: compress.Gzip()}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var refused atomic.Int64
				answered := make(chan string, 1)
				refusing := func(next tandem.Func) tandem.Func {
					return func(ctx context.Context, call *tandem.Call) error {
						if refused.Add(1) <= 2 {
							return &tandem.Error{Code: tandem.Unavailable, Message: "not now", NotExecuted: true}
						}
						var in string
						if err := call.Body.Decode(&in); err != nil {
							return err
						}
						answered <- in
						return next(ctx, call)
					}
				}
				mem := transport.NewMemory()
				for _, address := range []string{"a", "b", "c"} {
					serveOn(t, mem, address, func(s *server.Server) error {
						return server.Handle(s, "Text.Echo", func(_ context.Context, in *string) (*string, error) { return in, nil })
					}, server.WithInterceptors(refusing))
				}
				c := dial(t, "static://a,b,c?transport=mem", client.WithTransport("mem", mem), client.WithFailMode(client.Failtry), opt)
				synctest.Wait()
				for i := range 3 {
					refused.Store(0)
					text := strings.Repeat(name, 1000*(i+1))
					if err := c.Call(t.Context(), "Text.Echo", &text, nil); err != nil {
						t.Error(err)
					}
					if got := <-answered; got != text {
						t.Errorf("the third attempt sent %d bytes, not the %d of the first", len(got), len(text))
					}
				}
			})
		})
	}
}

// fickle encodes a value once; servers take it for the codec that it embeds.
type fickle struct{ tandem.Codec }

func (fickle) Append(dst []byte, v any) ([]byte, error) {
	if once := v.(*Once); !once.done.Swap(true) {
		return append(dst, "once"...), nil
	}
	return dst, errors.New("encoded already")
}

// Once is what fickle encodes.
type Once struct{ done atomic.Bool }

// If arguments can be encoded only once, a retry fails with an error that says so. It does not
// send empty arguments.
func TestRetryCannotEncode(t *testing.T) {
	for name, mode := range map[string]tandem.FailMode{"failtry": client.Failtry, "failback": client.Failback} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var attempts atomic.Int64
				c := refuse(t, &attempts, client.WithFailMode(mode), client.WithCodec(fickle{codec.Raw()}))
				err := c.Call(t.Context(), "Arith.Mul", new(Once), nil)
				if tandem.CodeOf(err) != tandem.InvalidArgument || !strings.Contains(err.Error(), "encoded already") || attempts.Load() != 1 {
					t.Errorf("after %d attempts: %v", attempts.Load(), err)
				}
			})
		})
	}
}
