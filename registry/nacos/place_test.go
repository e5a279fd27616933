package nacos

import (
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

func TestTargets(t *testing.T) {
	for target, want := range map[string]place{
		"nacos://h:8848/S":                      {servers: "http://h:8848/nacos", service: "S", ttl: 15 * time.Second, poll: 2 * time.Second},
		"nacos+https://h1:1,[::1]:2/shop/a.b:C": {servers: "https://h1:1/nacos,https://[::1]:2/nacos", group: "shop", service: "a.b:C", ttl: 15 * time.Second, poll: 2 * time.Second},
		"nacos://h:1/S?namespace=n-1&cluster=c&context=/a/b/&ttl=1s&poll=10ms": {
			servers: "http://h:1/a/b", namespace: "n-1", cluster: "c", service: "S", ttl: time.Second, poll: 10 * time.Millisecond,
		},
	} {
		if got, err := parsed(t, target); err != nil || got != want {
			t.Errorf("%s: got %+v and %v", target, got, err)
		}
	}
	if p, err := parsed(t, "nacos://h:1/S", WithTTL(time.Minute), WithPoll(time.Second), WithTLS(nil)); err != nil || p.ttl != time.Minute || p.poll != time.Second || p.servers != "https://h:1/nacos" {
		t.Errorf("options: got %+v and %v", p, err)
	}
}

func TestBadTargets(t *testing.T) {
	for target, want := range map[string]string{
		"etcd://h:1/S":                            "scheme",
		"nacos://h/S":                             "host:port",
		"nacos://h:0/S":                           "host:port",
		"nacos:///S":                              "host:port",
		"nacos://h:1,/S":                          "host:port",
		"nacos://h:1":                             "bad path",
		"nacos://h:1/":                            "bad path",
		"nacos://h:1/a/b/c":                       "bad path",
		"nacos://h:1/a/":                          "bad path",
		"nacos://h:1//b":                          "bad group",
		"nacos://h:1/größe":                       "bad path",
		"nacos://h:1/a@@b":                        "bad path",
		"nacos://h:1/S?namespace=a/b":             "bad namespace",
		"nacos://h:1/S?cluster=a,b":               "bad cluster",
		"nacos://h:1/S?context=a?b":               "bad context",
		"nacos://h:1/S?ttl=15":                    "bad ttl",
		"nacos://h:1/S?ttl=999ms":                 "allowed 1s to",
		"nacos://h:1/S?poll=1h":                   "allowed 10ms to",
		"nacos://h:1/S?password=secret":           "unknown option",
		"nacos://h:1/" + strings.Repeat("x", 513): "bad path",
	} {
		if _, err := parsed(t, target); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "target") {
			t.Errorf("%.60s: got %v, want %q", target, err, want)
		}
		if _, err := New(target); err == nil {
			t.Errorf("New takes %.60s", target)
		}
	}
	if _, err := New("nacos://h:1/S", WithTTL(time.Hour)); err == nil {
		t.Error("New takes a ttl of an hour")
	}
}

func parsed(t *testing.T, target string, opts ...Option) (place, error) {
	t.Helper()
	at, err := registry.ParseTarget(target)
	if err != nil {
		t.Fatal(err)
	}
	r := newResolver(opts)
	p, err := r.parse(at)
	if checked := r.Check(at); (checked == nil) != (err == nil) {
		t.Errorf("%s: Check says %v, the parser %v", target, checked, err)
	}
	return p, err
}
