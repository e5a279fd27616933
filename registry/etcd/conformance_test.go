//go:build integration && unix

package etcd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// within is the timeout of every wait in these tests: two seconds to live, five to
// recover, and the rest for a machine that runs the etcd processes of many tests at once.
const within = 40 * time.Second

// harness returns a new list on a server. Its outage kills the server.
func harness(t testing.TB, s *server, options string) registrytest.Harness {
	dir := fmt.Sprintf("/tandem-test/%x", time.Now().UnixNano())
	target, err := registry.ParseTarget("etcd://" + s.client + dir + "?" + options)
	if err != nil {
		t.Fatal(err)
	}
	r, err := New(target.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	losses := 0
	return registrytest.Harness{
		Registrar: r, Resolver: Resolver(), Target: target, Within: within,
		Aliases: []registry.Target{
			{Scheme: "etcd", Authority: s.client, Path: dir},
			{Scheme: "etcd", Authority: s.client, Path: dir + "/", Query: url.Values{"layout": {"rpcx"}, "ttl": {"9s"}}},
		},
		Lose: func(id string) error {
			losses++
			return s.lose(dir+"/"+url.PathEscape(id), losses%2 == 0)
		},
		Outage: func() (func() error, error) { s.kill(); return s.launch, nil },
	}
}

// lose deletes a key, or revokes its lease.
func (s *server) lose(key string, revoke bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return s.try(func(c *clientv3.Client) error {
		resp, err := c.Get(ctx, key)
		if err != nil {
			return err
		}
		if len(resp.Kvs) == 0 {
			return errors.New("there is no key " + key)
		}
		if revoke {
			_, err = c.Revoke(ctx, clientv3.LeaseID(resp.Kvs[0].Lease))
			return err
		}
		_, err = c.Delete(ctx, key)
		return err
	})
}

// TestConformance is not parallel: one of its checks counts the goroutines of the
// whole process.
func TestConformance(t *testing.T) {
	s := startServer(t)
	registrytest.Run(t, func(t testing.TB) registrytest.Harness { return harness(t, s, "ttl=2s") })
}

// TestConformanceStopped repeats the checks of outages with a stopped server:
// connections stay open, and requests get no response. The time to live is longer than
// the outage, because the list would be empty after it otherwise.
func TestConformanceStopped(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, c := range registrytest.Checks() {
		if !strings.Contains(c.Name, "outage") || strings.HasPrefix(c.Name, "close") {
			continue // after a failed Close, the check would have to wait for the end of the lease
		}
		t.Run(c.Name, func(t *testing.T) {
			h := harness(t, s, "ttl=8s")
			h.Outage = func() (func() error, error) {
				return func() error { return s.signal(syscall.SIGCONT) }, s.signal(syscall.SIGSTOP)
			}
			if err := c.Run(t.Context(), h); err != nil {
				t.Error(err)
			}
		})
	}
}
