//go:build integration

package redis

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// policyKey is the key of the tests' document.
const policyKey = "/tandem/policies/shop"

// putDocument writes a key as redis-cli would, and announces nothing; an empty text
// deletes it.
func putDocument(t testing.TB, admin *goredis.Client, text []byte) error {
	const at = "tandem:{tandem/policies/shop}:document"
	if len(text) == 0 {
		return admin.Del(t.Context(), at).Err()
	}
	return admin.Set(t.Context(), at, text, 0).Err()
}

func TestDocuments(t *testing.T) {
	s := start(t)
	admin := s.admin()
	r := open(t, s.target("list"))
	if err := registrytest.CheckDocuments(t.Context(), registrytest.DocumentHarness{
		Documents: r, Key: policyKey, Name: name, Within: 15 * time.Second,
		Put: func(text []byte) error { return putDocument(t, admin, text) },
		Outage: func() (func() error, error) {
			s.kill()
			return func() error { s.run(); return nil }, nil
		},
	}); err != nil {
		t.Error(err)
	}
	if left := admin.Keys(t.Context(), "*applied*").Val(); len(left) != 0 {
		t.Errorf("reports leave behind %q", left)
	}
	for _, bad := range []string{"", "/", "shop", "/a{b}"} {
		if err := r.WatchDocument(t.Context(), bad, func([]byte, error) {}); err == nil {
			t.Errorf("key %q is taken", bad)
		}
	}
	if err := newRegistry(nil).WatchDocument(t.Context(), policyKey, func([]byte, error) {}); err == nil {
		t.Error("a Resolver watches")
	}
}

// TestDocumentsAreBounded: a document that is too large or not a string is an error, and
// the number of reports is limited.
func TestDocumentsAreBounded(t *testing.T) {
	s := start(t)
	admin := s.admin()
	r := open(t, s.target("list"))
	if err := putDocument(t, admin, make([]byte, registry.MaxDocument+1)); err != nil {
		t.Fatal(err)
	}
	_, _, err := r.conn.document(t.Context(), documentKey(policyKey), "")
	if err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a large document: %v", err)
	}
	admin.Del(t.Context(), documentKey(policyKey))
	admin.HSet(t.Context(), documentKey(policyKey), "a", "b")
	if _, _, err = r.conn.document(t.Context(), documentKey(policyKey), ""); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("a hash: %v", err)
	}
	for i := range registry.MaxReports {
		if err := r.PutReport(t.Context(), policyKey, fmt.Sprint(i), []byte("{}"), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.PutReport(t.Context(), policyKey, "one more", nil, time.Minute); !errors.Is(err, registry.ErrReports) {
		t.Errorf("one more: %v", err)
	}
	if err := r.PutReport(t.Context(), policyKey, "7", []byte("again"), time.Minute); err != nil {
		t.Errorf("one again: %v", err)
	}
	if all, err := r.Reports(t.Context(), policyKey); err != nil || len(all) != registry.MaxReports || string(all["7"]) != "again" {
		t.Errorf("%d reports, %q, %v", len(all), all["7"], err)
	}
}

// TestClientFollowsPolicy: a client follows its policy in Redis, keeps it while Redis is
// down, and reports, with only the rights that the guide lists.
func TestClientFollowsPolicy(t *testing.T) {
	s := start(t)
	users := func(admin *goredis.Client) {
		args := []any{"ACL", "SETUSER"}
		for _, rule := range strings.Fields(acl)[1:] {
			args = append(args, rule)
		}
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	admin := s.admin()
	users(admin)
	r := open(t, s.target("list"), WithAuth("arith", "secret"))
	source := policy.FromRegistry(r, policyKey)
	c, err := client.Dial("tcp://127.0.0.1:1", client.WithPolicyFrom(source, "till 7"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	reported := func(right func(policy.Applied) bool) func() bool {
		return func() bool {
			list, err := source.(policy.Reports).Applied(t.Context())
			return err == nil && len(list) == 1 && list[0].Client == "till 7" && right(list[0])
		}
	}
	if err := r.SwapDocument(t.Context(), policyKey, nil, []byte(`{"version": "1", "default": {"timeout": "2s"}}`)); err != nil {
		t.Fatal(err)
	}
	wait(t, "report", reported(func(a policy.Applied) bool { return a.InForce == "1" && a.Error == "" }))
	if err := putDocument(t, admin, []byte(`{"default": {"timeout": "soon"}}`)); err != nil {
		t.Fatal(err)
	}
	wait(t, "refusal", reported(func(a policy.Applied) bool {
		return a.InForce == "1" && strings.Contains(a.Error, "default.timeout")
	}))
	s.kill()
	wait(t, "outage", func() bool { p := c.Policy(); return p.InForce == "1" && strings.Contains(p.Error, name) })
	s.run()
	users(admin)
	if err := putDocument(t, admin, []byte(`{"version": "2"}`)); err != nil {
		t.Fatal(err)
	}
	wait(t, "report", reported(func(a policy.Applied) bool { return a.InForce == "2" && a.Error == "" }))
}
