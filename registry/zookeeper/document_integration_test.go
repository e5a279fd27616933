//go:build integration

package zookeeper

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// putDocument writes a node, as zkCli.sh would; an empty text deletes it.
func putDocument(conn *zk.Conn, at string, text []byte) error {
	if len(text) == 0 {
		return conn.Delete(at, -1)
	}
	_, err := conn.Set(at, text, -1)
	if !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	var dirs []string
	for dir := path.Dir(at); dir != "/"; dir = path.Dir(dir) {
		dirs = append([]string{dir}, dirs...)
	}
	for _, dir := range dirs {
		if _, err := conn.Create(dir, nil, 0, zk.WorldACL(zk.PermAll)); err != nil && !errors.Is(err, zk.ErrNodeExists) {
			return err
		}
	}
	_, err = conn.Create(at, text, 0, zk.WorldACL(zk.PermAll))
	return err
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := s.connect(t)
	r := open(t, target(s.address(), "?ttl=4s"), logged(t))
	const key = "/tandem/policies/shop"
	if err := registrytest.CheckDocuments(t.Context(), registrytest.DocumentHarness{
		Documents: r, Key: key, Name: name, Within: 15 * time.Second,
		Largest: 1<<20 - 1 - 200, // ZooKeeper's default limit of a packet is 1 MiB less a byte, with the path and a header
		Put:     func(text []byte) error { return putDocument(other, key, text) },
		Outage: func() (func() error, error) {
			s.kill()
			return func() error { s.start(); return nil }, nil
		},
		Leave: func() error { // ends the session that owns the reports
			r.mu.Lock()
			release := r.release
			r.link, r.release = nil, nil
			r.mu.Unlock()
			release()
			return nil
		},
	}); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "/", "shop", "/shop/", "/a//b"} {
		if err := r.WatchDocument(t.Context(), bad, func([]byte, error) {}); err == nil {
			t.Errorf("key %q is taken", bad)
		}
	}
	if err := newRegistry(nil).WatchDocument(t.Context(), key, func([]byte, error) {}); err == nil {
		t.Error("a Resolver watches")
	}
}

// TestTwoUsersHaveDocuments: a user whose nodes others may not touch does not keep them from
// documents of their own, neither by a report nor by a document.
func TestTwoUsersHaveDocuments(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for i, user := range []string{"ann", "bob", "eve"} {
		r := open(t, "zookeeper://"+s.address()+"/users/"+user+"?ttl=4s&acl=creator", WithAuth(user, "secret"), logged(t))
		d, key, err := r.DocumentsOf(registry.Target{})
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			err = d.PutReport(t.Context(), key, "me", nil, time.Minute)
		}
		if err := errors.Join(err, d.(registry.DocumentWriter).SwapDocument(t.Context(), key, nil, []byte("of "+user))); err != nil {
			t.Errorf("%s: %v", user, err)
		}
		if _, _, err := s.connect(t).Get(key); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("a stranger reads the document of %s: %v", user, err)
		}
	}
}

// TestReportsAreBounded: a new report replaces that of a process that has ended but whose
// session has not expired yet, and a report over the limit is refused.
func TestReportsAreBounded(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := s.connect(t)
	r := open(t, target(s.address(), "?ttl=4s"), logged(t))
	const key = "/tandem/policies/shop"
	if err := putDocument(other, key+"/applied/x", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Create(key+"/applied/me", []byte("before"), zk.FlagEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if err := r.PutReport(t.Context(), key, "me", []byte("now"), time.Minute); err != nil {
		t.Fatal(err)
	}
	if _, stat, err := other.Get(key + "/applied/me"); err != nil || stat.EphemeralOwner == other.SessionID() {
		t.Errorf("the report still belongs to the session before: %+v, %v", stat, err)
	}
	for i := 2; i < registry.MaxReports; i += 100 {
		var all []any
		for j := i; j < min(i+100, registry.MaxReports); j++ {
			all = append(all, &zk.CreateRequest{Path: fmt.Sprintf("%s/applied/n%d", key, j), Data: []byte("{}"), Acl: zk.WorldACL(zk.PermAll)})
		}
		if _, err := other.Multi(all...); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.PutReport(t.Context(), key, "one more", nil, time.Minute); !errors.Is(err, registry.ErrReports) {
		t.Errorf("one more: %v", err)
	}
	if err := r.PutReport(t.Context(), key, "me", []byte("again"), time.Minute); err != nil {
		t.Errorf("one again: %v", err)
	}
	if all, err := r.Reports(t.Context(), key); err != nil || len(all) != registry.MaxReports || string(all["me"]) != "again" {
		t.Errorf("%d reports, mine is %q, %v", len(all), all["me"], err)
	}
}

// TestClientFollowsPolicy: a client follows its policy in ZooKeeper, keeps it while
// ZooKeeper is down, and reports which one it applies.
func TestClientFollowsPolicy(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	other := s.connect(t)
	r := open(t, target(s.address(), "?ttl=4s"), logged(t))
	const key = "/tandem/policies/shop"
	source := policy.FromRegistry(r, key)
	c, err := client.Dial("tcp://127.0.0.1:1", client.WithPolicyFrom(source, "till 7"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	until := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(15 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) { // polls a condition
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
	say := func(text string) {
		t.Helper()
		if err := putDocument(other, key, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	say(`{"version": "1", "default": {"timeout": "2s"}}`)
	until("applied", reported(func(a policy.Applied) bool { return a.InForce == "1" && a.Error == "" }))
	say(`{"default": {"timeout": "soon"}}`)
	until("refused", reported(func(a policy.Applied) bool {
		return a.InForce == "1" && strings.Contains(a.Error, "default.timeout")
	}))
	s.kill()
	until("kept", func() bool { a := c.Policy(); return a.InForce == "1" && strings.Contains(a.Error, name) })
	s.start()
	until("put", func() bool { return putDocument(other, key, []byte(`{"version": "2"}`)) == nil })
	until("applied again", reported(func(a policy.Applied) bool { return a.InForce == "2" && a.Error == "" }))
}
