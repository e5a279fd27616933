package registry

import (
	"net/url"
	"reflect"
	"strings"
	"testing"
)

func TestParseTarget(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want Target
	}{
		{"localhost:80", Target{Scheme: "tcp", Authority: "localhost:80"}},
		{"tcp://localhost:80", Target{Scheme: "tcp", Authority: "localhost:80"}},
		{"TCP://[::1]:80", Target{Scheme: "tcp", Authority: "[::1]:80"}},
		{"unix:///run/a.sock", Target{Scheme: "unix", Path: "/run/a.sock"}},
		{"unix://run/a.sock", Target{Scheme: "unix", Authority: "run", Path: "/a.sock"}},
		{"static://a:1,b:2?weight=3,1", Target{Scheme: "static", Authority: "a:1,b:2", Query: url.Values{"weight": {"3,1"}}}},
		{"etcd://h1,h2/prefix/%20?ttl=10s&x=", Target{Scheme: "etcd", Authority: "h1,h2", Path: "/prefix/%20", Query: url.Values{"ttl": {"10s"}, "x": {""}}}},
		{"dns://a:1?", Target{Scheme: "dns", Authority: "a:1"}},
		{"a:1?next=http://b", Target{Scheme: "tcp", Authority: "a:1", Query: url.Values{"next": {"http://b"}}}},
		{"grpc+tls://a", Target{Scheme: "grpc+tls", Authority: "a"}},
	} {
		got, err := ParseTarget(tc.in)
		if err != nil || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("ParseTarget(%q) = %+v, %v; want %+v", tc.in, got, err, tc.want)
		}
	}
}

func TestParseTargetRefuses(t *testing.T) {
	for in, reason := range map[string]string{
		"":                           "want scheme://address",
		"tcp://":                     "want scheme://address",
		"tcp://?a=b":                 "want scheme://address",
		"://a":                       "bad scheme",
		"1a://b":                     "bad scheme",
		"a b://c":                    "bad scheme",
		"é://c":                      "bad scheme",
		"a:1?%zz":                    "bad query",
		"a:1?x;y":                    "bad query",
		strings.Repeat("a", 1<<20+1): "limit 1048576",
	} {
		if _, err := ParseTarget(in); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("ParseTarget(%.20q): %v, want %q", in, err, reason)
		}
	}
}

func TestTargetOptions(t *testing.T) {
	target := mustParse(t, "etcd://h?ttl=10s&empty=")
	got, err := target.Options("ttl", "empty", "other")
	if want := map[string]string{"ttl": "10s", "empty": ""}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("options %v, %v; want %v", got, err, want)
	}
	if _, err := target.Options("ttl"); err == nil || !strings.Contains(err.Error(), `unknown option "empty"; there are ttl`) {
		t.Errorf("unknown option: %v", err)
	}
	if _, err := mustParse(t, "etcd://h?a=1&a=2").Options("a"); err == nil || !strings.Contains(err.Error(), "2 times") {
		t.Errorf("repeated option: %v", err)
	}
}

// The text of a parsed target parses to an equal target, so a logged target can be used again.
func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{
		"a:1", "tcp://[::1]:80", "unix:///run/a.sock", "static://a:1,b:2?weight=3,1", "a?b=c://d",
		"dns://_x._tcp.y?interval=1s", "x://a://b/c?d=%20&d=+", "://", "tcp://?", "s://%zz?%zz", "a#b:1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := ParseTarget(s)
		if err != nil {
			return
		}
		if target.Scheme == "" || target.Address() == "" {
			t.Fatalf("ParseTarget(%q) = %+v", s, target)
		}
		again, err := ParseTarget(target.String())
		if err != nil || !reflect.DeepEqual(again, target) {
			t.Fatalf("%q: %+v printed as %q is %+v, %v", s, target, target.String(), again, err)
		}
		_, _ = static{}.List(target) // accepts or refuses the target, and does not panic
	})
}
