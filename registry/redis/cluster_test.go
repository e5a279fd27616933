//go:build integration

package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// wait polls until ok returns true: Redis does not announce such changes.
func wait(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); <-time.After(50 * time.Millisecond) {
		if time.Since(start) > 15*time.Second {
			t.Fatalf("no %s after 15 s", what)
		}
	}
}

// TestCluster runs three nodes that share the slots. Each of them stores some lists.
func TestCluster(t *testing.T) {
	var nodes []*server
	var admins []*goredis.Client
	for range 3 {
		bus := registrytest.FreePort(t)
		nodes = append(nodes, start(t, "--cluster-enabled", "yes", "--cluster-port", fmt.Sprint(bus), "--cluster-node-timeout", "1000"))
		admins = append(admins, nodes[len(nodes)-1].admin())
		n := len(nodes) - 1
		first, last := n*16384/3, (n+1)*16384/3-1
		if err := admins[n].ClusterAddSlotsRange(t.Context(), first, last).Err(); err != nil {
			t.Fatal(err)
		}
		if err := admins[n].Do(t.Context(), "CLUSTER", "MEET", "127.0.0.1", nodes[0].port, cport(nodes[0])).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range admins {
		wait(t, "cluster", func() bool {
			info := a.ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, "cluster_known_nodes:3")
		})
	}
	user := strings.Fields(acl)[1:]
	for _, a := range admins {
		args := []any{"ACL", "SETUSER"}
		for _, rule := range append(user, "+cluster|slots", "+cluster|shards", "+readonly", "+command") {
			args = append(args, rule)
		}
		if err := a.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	auth := WithAuth("arith", "secret")
	for i := range 10 {
		target := fmt.Sprintf("redis://127.0.0.1:%d,127.0.0.1:%d/prod/S%d?ttl=1s", nodes[0].port, nodes[1].port, i)
		v := look(t, Resolver(auth), target)
		r := open(t, target, auth)
		entry := register(t, r, instance("a"))
		register(t, r, instance("b"))
		v.sees(3*time.Second, "a", "b")
		entry.Close()
		v.sees(3*time.Second, "b")
		d, key, err := r.DocumentsOf(registry.Target{})
		if err != nil {
			t.Fatal(err)
		}
		swap := d.(registry.DocumentWriter).SwapDocument
		if err := swap(t.Context(), key, nil, []byte("set")); err != nil {
			t.Error(err)
		}
		if err := swap(t.Context(), key, nil, []byte("again")); !errors.Is(err, registry.ErrChanged) {
			t.Errorf("a swap of a changed document: %v", err)
		}
	}
	for i, a := range admins {
		if a.DBSize(t.Context()).Val() == 0 {
			t.Errorf("node %d has nothing", i)
		}
	}
	one := fmt.Sprintf("redis://127.0.0.1:%d/prod/S3?cluster=true", nodes[2].port)
	look(t, Resolver(auth), one).sees(3*time.Second, "b")
	found, err := Resolver(auth).(registry.Directory).Lists(t.Context(), mustParse(t, strings.Replace(one, "/S3", "", 1)))
	if err != nil || len(found) != 10 || found[3].String() != one {
		t.Errorf("the lists of all nodes: %v, %v", found, err)
	}
}

// cport returns the port of a node's cluster bus.
func cport(s *server) string {
	for i, a := range s.args {
		if a == "--cluster-port" {
			return s.args[i+1]
		}
	}
	return ""
}
