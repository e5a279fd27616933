package zookeeper

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

func TestTargets(t *testing.T) {
	for text, want := range map[string]place{
		"zookeeper://h/a/B":                      {link: "h?15s", dir: "/a/B", ttl: 15 * time.Second, acl: zk.WorldACL(zk.PermAll), layout: tandemLayout{}},
		"zookeeper://h:1,[::1],[::1]:2/B?ttl=2s": {link: "h:1,[::1],[::1]:2?2s", dir: "/B", ttl: 2 * time.Second, acl: zk.WorldACL(zk.PermAll), layout: tandemLayout{}},
		"zookeeper://h/rpcx/B?layout=rpcx":       {link: "h?15s", dir: "/rpcx/B", ttl: 15 * time.Second, acl: zk.WorldACL(zk.PermAll), layout: rpcxLayout{}},
		"zookeeper://h/dubbo/a.B%2Fc?layout=dubbo&acl=creator": {
			link: "h?15s", dir: "/dubbo/a.B%2Fc/providers", ttl: 15 * time.Second, acl: zk.AuthACL(zk.PermAll), layout: dubboLayout{"a.B/c"},
		},
	} {
		target, err := registry.ParseTarget(text)
		if err != nil {
			t.Fatal(err)
		}
		r := newRegistry([]Option{WithAuth("user", "secret")})
		if got, err := r.place(target); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v and %v, want %+v", text, got, err, want)
		}
	}
}

func TestBadTargets(t *testing.T) {
	for text, want := range map[string]string{
		"zookeeper://h":               "names no directory",
		"zookeeper://h/":              "names no directory",
		"zookeeper://h/a//b":          `"" can't be the name`,
		"zookeeper://h/a/":            `"" can't be the name`,
		"zookeeper://h/../b":          `".." can't be the name`,
		"zookeeper://h/a\x01b":        "does not take",
		"zookeeper:///a":              "want host:port",
		"zookeeper://h,,g/a":          "want host:port",
		"zookeeper://h:0/a":           "want host:port",
		"zookeeper://h:http/a":        "want host:port",
		"zookeeper://h/a?ttl=1":       "bad ttl",
		"zookeeper://h/a?ttl=1ms":     "want 1s to 10m0s",
		"zookeeper://h/a?ttl=1h":      "want 1s to 10m0s",
		"zookeeper://h/a?acl=none":    "want open, read or creator",
		"zookeeper://h/a?acl=read":    "WithAuth",
		"zookeeper://h/a?layout=curl": "want tandem, dubbo or rpcx",
		"zookeeper://h/a?password=x":  "unknown option",
	} {
		r, err := New(text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
		if r != nil {
			t.Errorf("%s: got a registry beside the error", text)
		}
	}
}

// TestResolverDoesNotRegister: a Resolver has no target to register in.
func TestResolverDoesNotRegister(t *testing.T) {
	if _, err := newRegistry(nil).Register(t.Context(), tandem.Instance{}); err == nil {
		t.Error("it has registered something")
	}
}
