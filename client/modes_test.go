package client_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// cluster is a number of servers in memory, named a, b, …, with the same method Test.Do, which
// gets the name of its server. It counts calls by server.
type cluster struct {
	network *transport.Memory
	names   []string
	servers []*server.Server

	mu    sync.Mutex
	calls map[string]int
}

type deed func(ctx context.Context, at string) (string, error)

func newCluster(t *testing.T, n int, do deed, opts ...server.Option) *cluster {
	t.Helper()
	cl := &cluster{network: transport.NewMemory(), calls: map[string]int{}}
	for i := range n {
		name := string(rune('a' + i))
		cl.names = append(cl.names, name)
		srv, _ := serveOn(t, cl.network, name, func(srv *server.Server) error {
			return server.Handle(srv, "Test.Do", func(ctx context.Context, _ *string) (*string, error) {
				cl.mu.Lock()
				cl.calls[name]++
				cl.mu.Unlock()
				said, err := do(ctx, name)
				return &said, err
			})
		}, opts...)
		cl.servers = append(cl.servers, srv)
	}
	return cl
}

// client returns a connected client of all servers. The test must be in a synctest bubble.
func (cl *cluster) client(t *testing.T, opts ...client.Option) *client.Client {
	t.Helper()
	c := dial(t, "static://"+strings.Join(cl.names, ",")+"?transport=mem", append(opts, client.WithTransport("mem", cl.network))...)
	synctest.Wait()
	return c
}

// total returns how many calls all servers have received.
func (cl *cluster) total() (n int) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for _, k := range cl.calls {
		n += k
	}
	return n
}

func (cl *cluster) at(name string) int {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	return cl.calls[name]
}

// do makes a call.
func do(t *testing.T, c tandem.Caller, opts ...tandem.CallOption) (string, error) {
	t.Helper()
	reply := "unchanged"
	err := c.Call(t.Context(), "Test.Do", "", &reply, opts...)
	return reply, err
}

// sick fails like a server that can't serve.
func sick(context.Context, string) (string, error) {
	return "", tandem.Errorf(tandem.Unavailable, "sick")
}

func well(_ context.Context, at string) (string, error) { return at, nil }

// untilEnd blocks until its context ends, and sends the time of that.
func untilEnd(ended chan<- time.Time) deed {
	return func(ctx context.Context, at string) (string, error) {
		<-ctx.Done()
		ended <- time.Now()
		return at, ctx.Err()
	}
}

// register is an argument for serveOn: it registers one method.
func register[In, Out any](name string, f func(context.Context, *In) (*Out, error)) func(*server.Server) error {
	return func(srv *server.Server) error { return server.Handle(srv, name, f) }
}
