//go:build integration && unix

package etcd

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

// Entries have the key, and the lease of their server's process; what is no instance has none.
func TestInspect(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	text := "etcd://" + s.client + "/tandem-test/list"
	target, err := registry.ParseTarget(text)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(text + "?ttl=30s")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if held, err := r.Inspect(t.Context(), target); err != nil || len(held) != 0 {
		t.Errorf("of an empty list: %v, %v", held, err)
	}
	for i := range 40 { // more than are asked for at a time
		in := tandem.Instance{ID: fmt.Sprintf("i%02d", i), Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "h:1"}}}
		if _, err := r.Register(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	s.do(func(ctx context.Context, c *clientv3.Client) error {
		_, err := c.Put(ctx, "/tandem-test/list/odd", "no instance")
		return err
	})
	held, err := r.Inspect(t.Context(), target)
	if err != nil || len(held) != 40 {
		t.Fatalf("%d entries, %v", len(held), err)
	}
	for i, h := range held {
		if h.ID != fmt.Sprintf("i%02d", i) || !strings.HasSuffix(h.Key, "/list/"+h.ID) || h.Lease == "" || h.Revision == 0 || h.TTL != 30*time.Second || h.Left <= 0 || h.Left > h.TTL {
			t.Errorf("%+v", h)
		}
	}
	s.kill()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := r.Inspect(ctx, target); err == nil {
		t.Error("no server answers, and there is no error")
	}
}
