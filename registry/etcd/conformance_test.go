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

// within is how long anything may take in these tests: two seconds to live, five
// to come back, and the rest for a machine that runs every test's etcd at once, and more.
const within = 40 * time.Second

// harness is a list of its own on a server. An outage is a server that was killed.
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

// It runs by itself: one of its checks counts the goroutines of the whole process.
func TestConformance(t *testing.T) {
	s := startServer(t)
	registrytest.Run(t, func(t testing.TB) registrytest.Harness { return harness(t, s, "ttl=2s") })
}

// TestConformanceStopped repeats the outages with a server that is there but does
// not answer: connections stay open, and requests are taken. Leases outlive the
// outage, lest the empty list after it be the truth.
func TestConformanceStopped(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for _, c := range registrytest.Checks() {
		if !strings.Contains(c.Name, "outage") || strings.HasPrefix(c.Name, "close") {
			continue // a close that fails would have to wait for the lease's end
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
