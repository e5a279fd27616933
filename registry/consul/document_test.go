//go:build integration

package consul

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// putDocument writes a key as "consul kv put" would; an empty text deletes it.
func (a *agent) putDocument(key string, text []byte) error {
	at := strings.TrimPrefix(key, "/")
	if len(text) == 0 {
		_, err := a.api.KV().Delete(at, nil)
		return err
	}
	_, err := a.api.KV().Put(&api.KVPair{Key: at, Value: text}, nil)
	return err
}

func TestDocuments(t *testing.T) {
	t.Parallel() // it waits
	a := startAgent(t, nil).start()
	relay := newRelay(t, a.addr)
	r := open(t, "consul://"+relay.addr+"/list/Arith")
	const key = "/tandem/policies/shop"
	if err := registrytest.CheckDocuments(t.Context(), registrytest.DocumentHarness{
		Documents: r, Key: key, Name: name, Largest: defaultRoom, Within: 2*leastLife + 15*time.Second,
		Put:    func(text []byte) error { return a.putDocument(key, text) },
		Outage: func() (func() error, error) { relay.cut(); return relay.restore, nil },
	}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "/", "shop", "/shop/", "/a//b", "/\xff"} {
		if err := r.WatchDocument(t.Context(), bad, func([]byte, error) {}); err == nil {
			t.Errorf("key %q is accepted", bad)
		}
	}
	if err := newRegistry(nil).WatchDocument(t.Context(), key, func([]byte, error) {}); err == nil {
		t.Error("a Resolver watches")
	}
	if err := r.SwapDocument(t.Context(), "/tandem/policies/none", nil, make([]byte, 600<<10)); err == nil || !strings.Contains(err.Error(), "kv_max_value_size") {
		t.Errorf("a document above Consul's limit: %v", err)
	}
}

// PutReport counts the reports on the server, and leaves one session for all reports
// under the same name.
func TestReportsAreBounded(t *testing.T) {
	t.Parallel() // it waits
	a := startAgent(t, nil).start()
	r := open(t, a.target("/list/Arith"))
	const key = "/tandem/policies/shop"
	for i := range 5 {
		life := time.Minute + time.Duration(i/3)*time.Second
		if err := r.PutReport(t.Context(), key, "me", []byte("again"), life); err != nil {
			t.Fatal(err)
		}
	}
	if sessions, _, err := a.api.Session().List(nil); err != nil || len(sessions) != 1 {
		t.Errorf("%d sessions after five reports of one client, %v", len(sessions), err)
	}
	for i := 1; i < registry.MaxReports; i += 60 {
		var puts api.TxnOps // Consul takes 64 at a time
		for j := i; j < min(i+60, registry.MaxReports); j++ {
			puts = append(puts, &api.TxnOp{KV: &api.KVTxnOp{Verb: api.KVSet, Key: fmt.Sprintf("%s/applied/%d", key[1:], j), Value: []byte("{}")}})
		}
		if ok, _, _, err := a.api.Txn().Txn(puts, nil); err != nil || !ok {
			t.Fatal(ok, err)
		}
	}
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

// A client follows its policy in Consul, keeps it while Consul is down, and reports.
func TestClientFollowsPolicy(t *testing.T) {
	t.Parallel() // it waits
	a := startAgent(t, nil).start()
	r := open(t, a.target("/list/Arith"))
	const key = "/tandem/policies/shop"
	source := policy.FromRegistry(r, key)
	c, err := client.Dial("tcp://127.0.0.1:1", client.WithPolicyFrom(source, "till 7"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	until := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) { // polls a condition
			if time.Now().After(end) {
				t.Fatalf("%s: the client says %+v", what, c.Policy())
			}
		}
	}
	reported := func(right func(policy.Applied) bool) func() bool {
		return func() bool {
			list, err := source.(policy.Reports).Applied(t.Context())
			return err == nil && len(list) == 1 && list[0].Client == "till 7" && right(list[0])
		}
	}
	if err := r.SwapDocument(t.Context(), key, nil, []byte(`{"version": "1", "default": {"timeout": "2s"}}`)); err != nil {
		t.Fatal(err)
	}
	until("applied", reported(func(a policy.Applied) bool { return a.InForce == "1" && a.Error == "" }))
	if err := a.putDocument(key, []byte(`{"default": {"timeout": "soon"}}`)); err != nil {
		t.Fatal(err)
	}
	until("refused", reported(func(a policy.Applied) bool {
		return a.InForce == "1" && strings.Contains(a.Error, "default.timeout")
	}))
	a.kill()
	until("kept", func() bool { p := c.Policy(); return p.InForce == "1" && strings.Contains(p.Error, name) })
	a.start()
	until("put", func() bool { return a.putDocument(key, []byte(`{"version": "2"}`)) == nil })
	until("applied again", reported(func(a policy.Applied) bool { return a.InForce == "2" && a.Error == "" }))
}
