//go:build integration && unix

package etcd

import (
	"context"
	"net/url"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// Servers of rpcx and of tandem share a directory.
func TestRPCXDirectory(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	// The keys that rpcx's plugin writes: the base path, the service, and its servers.
	s.put("/rpcx_test", "rpcx_path")
	s.put("/rpcx_test/Arith", "Arith")
	s.put("/rpcx_test/Arith/tcp@10.0.0.1:8972", "group=test&weight=7")
	s.put("/rpcx_test/Arith/tcp@10.0.0.2:8972", "state=inactive")
	s.put("/rpcx_test/Arithmetic/tcp@10.0.0.3:8972", "")

	r := s.open("/rpcx_test/Arith?layout=rpcx&ttl=3s")
	e := look(t, r, registry.Target{})
	e.sees(within, "tcp://10.0.0.1:8972")
	in := tandem.Instance{ID: "cart", Group: "test", Weight: 9, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "10.0.0.4:8972"}}}
	entry := register(t, r, in)
	e.sees(within, "cart", "tcp://10.0.0.1:8972")

	// A consumer of rpcx lists the keys below the service and reads their queries.
	if got, want := s.consume("/rpcx_test/Arith"), []string{"tcp@10.0.0.1:8972 test 7", "tcp@10.0.0.4:8972 test 9"}; !slices.Equal(got, want) {
		t.Errorf("rpcx finds %q, want %q", got, want)
	}
	d, key, err := r.DocumentsOf(registry.Target{})
	if err == nil {
		err = d.(registry.DocumentWriter).SwapDocument(t.Context(), key, nil, []byte("state=inactive"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := s.consume("/rpcx_test/Arith"); len(got) != 2 {
		t.Errorf("beside the list's document rpcx finds %q", got)
	}
	if err := s.lose("/rpcx_test/Arith/tcp@10.0.0.4:8972", true); err != nil {
		t.Fatal(err)
	}
	s.awaitKey("/rpcx_test/Arith/tcp@10.0.0.4:8972", func(value string) bool { return value != "" })
	in.Endpoints[0].Address = "10.0.0.5:8972"
	if err := entry.Update(t.Context(), in); err == nil {
		t.Error("an update moved an instance to another key")
	}
	s.put("/rpcx_test/Arith/tcp@10.0.0.1:8972", "group=test&weight=7&state=inactive")
	e.sees(within, "cart")
	entry.Close()
	e.sees(within)
}

// consume reads a service as rpcx's discovery does: address, group and weight of each
// server that is not inactive.
func (s *server) consume(service string) (found []string) {
	s.t.Helper()
	s.do(func(ctx context.Context, c *clientv3.Client) error {
		resp, err := c.Get(ctx, service+"/", clientv3.WithPrefix())
		if err != nil {
			return err
		}
		for _, kv := range resp.Kvs {
			q, err := url.ParseQuery(string(kv.Value))
			if err != nil {
				return err
			}
			if q.Get("state") != "inactive" {
				found = append(found, string(kv.Key[len(service)+1:])+" "+q.Get("group")+" "+q.Get("weight"))
			}
		}
		return nil
	})
	return found
}
