//go:build integration && unix

package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// putDocument writes a key with a client of its own, as etcdctl would; an empty text
// deletes it.
func (s *server) putDocument(key string, text []byte) error {
	return s.try(func(c *clientv3.Client) error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if len(text) == 0 {
			_, err := c.Delete(ctx, key)
			return err
		}
		_, err := c.Put(ctx, key, string(text))
		return err
	})
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r, err := New("etcd://" + s.client + "/tandem-test/list")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const key = "/tandem-test/policies/shop"
	if err := registrytest.CheckDocuments(t.Context(), registrytest.DocumentHarness{
		Documents: r, Key: key, Name: name, Within: within,
		Put:    func(text []byte) error { return s.putDocument(key, text) },
		Outage: func() (func() error, error) { s.kill(); return s.launch, nil },
	}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "/", "shop", "/shop/"} {
		if err := r.WatchDocument(t.Context(), bad, func([]byte, error) {}); err == nil {
			t.Errorf("key %q is accepted", bad)
		}
	}
	if err := newRegistry(nil).WatchDocument(t.Context(), key, func([]byte, error) {}); err == nil {
		t.Error("a Resolver watches")
	}
}

// PutReport counts the reports on the server, and revokes the lease of a report that it
// replaces.
func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r, err := New("etcd://" + s.client + "/tandem-test/list")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const key = "/tandem-test/policies/shop"
	for range 5 {
		if err := r.PutReport(t.Context(), key, "me", []byte("again"), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	s.do(func(ctx context.Context, c *clientv3.Client) error {
		leases, err := c.Leases(ctx)
		if err == nil && len(leases.Leases) != 1 {
			err = fmt.Errorf("%d leases after five reports of one client", len(leases.Leases))
		}
		for i := 1; i < registry.MaxReports && err == nil; i += 100 {
			var puts []clientv3.Op
			for j := i; j < min(i+100, registry.MaxReports); j++ {
				puts = append(puts, clientv3.OpPut(fmt.Sprintf("%s/applied/%d", key, j), "{}"))
			}
			_, err = c.Txn(ctx).Then(puts...).Commit()
		}
		return err
	})
	if err := r.PutReport(t.Context(), key, "one more", nil, time.Minute); !errors.Is(err, registry.ErrReports) {
		t.Errorf("one more: %v", err)
	}
	if err := r.PutReport(t.Context(), key, "me", nil, time.Minute); err != nil {
		t.Errorf("one again: %v", err)
	}
	if all, err := r.Reports(t.Context(), key); err != nil || len(all) != registry.MaxReports {
		t.Errorf("%d reports, %v", len(all), err)
	}
}

// A client follows its policy in etcd, keeps it while etcd is down, and reports.
func TestClientFollowsPolicy(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	r, err := New("etcd://" + s.client + "/tandem-test/list")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const key = "/tandem-test/policies/shop"
	source := policy.FromRegistry(r, key)
	c, err := client.Dial("tcp://127.0.0.1:1", client.WithPolicyFrom(source, "till 7"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	applied := func(version, inForce, trouble string) {
		t.Helper()
		for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) { // polls a condition
			list, err := source.(policy.Reports).Applied(t.Context())
			if err == nil && len(list) == 1 && list[0].Client == "till 7" && list[0].InForce == inForce &&
				strings.HasPrefix(list[0].Version, version) && strings.Contains(list[0].Error, trouble) && (list[0].Error == "") == (trouble == "") {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("reported is %+v, %v; the client says %+v", list, err, c.Policy())
			}
		}
	}
	put := func(text string) {
		t.Helper()
		if err := s.putDocument(key, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"version": "1", "default": {"timeout": "2s"}}`)
	applied("1", "1", "")
	put(`{"default": {"timeout": "soon"}}`)
	applied("", "1", "default.timeout")
	s.kill()
	for end := time.Now().Add(within); !strings.Contains(c.Policy().Error, name); time.Sleep(20 * time.Millisecond) { // polls a condition
		if a := c.Policy(); a.InForce != "1" || time.Now().After(end) {
			t.Fatalf("while etcd is down: %+v", a)
		}
	}
	s.start()
	put(`{"version": "2", "default": {"timeout": "3s"}}`)
	applied("2", "2", "")
}
