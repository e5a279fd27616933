package consul

import (
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		target string
		want   place
	}{
		{"consul://h/Arith", place{"h:8500", "/Arith", "Arith", defaultTTL}},
		{"consul://h1:1,[::1],[::1]:2,10.0.0.1/a/b/Arith?ttl=90s", place{"h1:1,[::1]:8500,[::1]:2,10.0.0.1:8500", "/a/b/Arith", "Arith", 90 * time.Second}},
		{"consul://h/größe", place{"h:8500", "/größe", "größe", defaultTTL}},
	} {
		got, err := Resolver().(*Registry).place(must(registry.ParseTarget(c.target)))
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v", c.target, got, err)
		}
	}
}

func TestBadTargets(t *testing.T) {
	for target, why := range map[string]string{
		"consul:///Arith":              "bad host",
		"consul://h":                   "no service",
		"consul://h/":                  "no service",
		"consul://h//Arith":            "empty element",
		"consul://h/Arith/":            "empty element",
		"consul://h1,,h2/Arith":        "bad host",
		"consul://h:0/Arith":           "bad port",
		"consul://h:http/Arith":        "bad port",
		"consul://a b/Arith":           "bad host",
		"consul://u:secret@h/Arith":    "WithToken",
		"consul://h/Arith?token=x":     "unknown option",
		"consul://h/Arith?ttl=10":      "ttl",
		"consul://h/Arith?ttl=10ms":    "allowed",
		"consul://h/Arith?ttl=100h":    "allowed",
		"consul://h/\xff":              "UTF-8",
		"consul://h/x" + long(600):     "limit",
		"consul://h" + long(16) + "/A": "hosts",
	} {
		if strings.HasSuffix(why, "hosts") {
			target = "consul://h" + strings.Repeat(",h", 16) + "/A"
		}
		_, err := New(target)
		if err == nil || !strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "WithToken: ") {
			t.Errorf("%.60s: got %v, want something about %q", target, err, why)
		}
	}
	if _, err := New("consul://h/A", WithTTL(time.Millisecond)); err == nil {
		t.Error("a time to live of a millisecond was accepted")
	}
}

func long(n int) string { return strings.Repeat("x", n) }

// Check refuses a bad target, and Watch returns the same error.
func TestCheck(t *testing.T) {
	r := Resolver().(*Registry)
	bad := must(registry.ParseTarget("consul://h/Arith?tls=1"))
	err := r.Check(bad)
	if err == nil {
		t.Fatal("a bad target was accepted")
	}
	if got := r.Watch(t.Context(), bad, nil); got == nil || got.Error() != err.Error() {
		t.Errorf("Check says %v, Watch %v", err, got)
	}
	if err := r.Check(must(registry.ParseTarget("consul://h/Arith"))); err != nil {
		t.Error(err)
	}
	if err := r.Check(registry.Target{}); err == nil {
		t.Error("a resolver accepts the zero target")
	}
	if _, err := r.Register(t.Context(), instance("a")); err == nil {
		t.Error("a resolver has registered something")
	}
}

// A place that was parsed from a target, written as a target, is parsed to the same place.
func FuzzPlace(f *testing.F) {
	f.Add("h:1,[::1]", "/a/b", "15s")
	f.Add("user@h", "/%2f", "")
	f.Add("h:", "/é", "1s")
	f.Fuzz(func(t *testing.T, authority, path, ttl string) {
		target := registry.Target{Scheme: "consul", Authority: authority, Path: path, Query: map[string][]string{"ttl": {ttl}}}
		p, err := parsePlace(target, defaultTTL)
		if err != nil {
			return
		}
		target.Authority = p.hosts
		if again, err := parsePlace(target, defaultTTL); err != nil || again != p {
			t.Errorf("%+v is then %+v, %v", p, again, err)
		}
		if _, err := dial(p.hosts, settings{}); err != nil {
			t.Errorf("%+v: %v", p, err)
		}
	})
}
