package registry

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tandem-rpc/tandem"
)

func TestSingle(t *testing.T) {
	for _, tc := range []struct {
		transport, target string
		want              tandem.Endpoint
	}{
		{"tcp", "tcp://127.0.0.1:80", tandem.Endpoint{Transport: "tcp", Address: "127.0.0.1:80"}},
		{"tcp", ":http", tandem.Endpoint{Transport: "tcp", Address: ":http"}},
		{"tcp", "[::1]:80?protocol=grpc", tandem.Endpoint{Transport: "tcp", Address: "[::1]:80", Protocol: "grpc"}},
		{"unix", "unix:///run/a.sock", tandem.Endpoint{Transport: "unix", Address: "/run/a.sock"}},
		{"unix", "unix://run/a.sock", tandem.Endpoint{Transport: "unix", Address: "run/a.sock"}},
		{"mem", "mem://name", tandem.Endpoint{Transport: "mem", Address: "name"}},
	} {
		got, err := first(t, Single(tc.transport), tc.target)
		want := []tandem.Instance{{ID: tc.want.String(), Endpoints: []tandem.Endpoint{tc.want}}}
		if err != nil || got.Err != nil || !reflect.DeepEqual(got.Instances, want) {
			t.Errorf("%s: %+v, %v; want %+v", tc.target, got, err, want)
		}
	}
}

func TestStatic(t *testing.T) {
	for target, want := range map[string]string{
		"static://a:1":                              "tcp://a:1/0/",
		"static://a:1,b:2?weight=3,1":               "tcp://a:1/3/ tcp://b:2/1/",
		"static://[::1]:1,b:2?protocol=grpc":        "tcp://[::1]:1/0/grpc tcp://b:2/0/grpc",
		"static:///run/a,/run/b?transport=unix":     "unix:///run/a/0/ unix:///run/b/0/",
		"static://x,y?transport=mem&weight=10000,1": "mem://x/10000/ mem://y/1/",
	} {
		s, err := first(t, Static(), target)
		var got []string
		for _, in := range s.Instances {
			got = append(got, fmt.Sprintf("%s/%d/%s", in.ID, in.Weight, in.Endpoints[0].Protocol))
		}
		if err != nil || s.Err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v, %v; want %q", target, got, err, s.Err, want)
		}
	}
}

// For a target that can never work, Watch returns at once with an error that says why.
func TestBadTargets(t *testing.T) {
	for _, tc := range []struct {
		resolver       Resolver
		target, reason string
	}{
		{Single("tcp"), "tcp://localhost", "missing port"},
		{Single("tcp"), "tcp://localhost:", "bad port"},
		{Single("tcp"), "tcp://localhost:0", "bad port"},
		{Single("tcp"), "tcp://localhost:65536", "bad port"},
		{Single("tcp"), "tcp://localhost:80/path", "bad port"},
		{Single("tcp"), "tcp://localhost:80?protcol=x", "unknown option"},
		{Single("mem"), "mem://" + strings.Repeat("a", 600), "limit 512"},
		{Static(), "static://a:1,", "address 2: the address is empty"},
		{Static(), "static://a:1,a:1", "named twice"},
		{Static(), "static://a:1,b:2?weight=1", "1 weights for 2 addresses"},
		{Static(), "static://a:1,b:2?weight=1,0", "weight \"0\": want a number from 1 to 10000"},
		{Static(), "static://a:1?weight=x", "weight \"x\""},
		{Static(), "static://a:1?weight=10001", "weight \"10001\""},
		{Static(), "static://a", "missing port"},
	} {
		_, err := first(t, tc.resolver, tc.target)
		if err == nil || !strings.Contains(err.Error(), tc.reason) || !strings.HasPrefix(err.Error(), "target ") {
			t.Errorf("%s: %v, want %q", tc.target, err, tc.reason)
		}
		if checked := tc.resolver.(Checker).Check(mustParse(t, tc.target)); err == nil || checked == nil || checked.Error() != err.Error() {
			t.Errorf("%s: Check says %v, Watch %v", tc.target, checked, err)
		}
	}
}

func TestCheckAcceptsGoodTargets(t *testing.T) {
	for target, resolver := range map[string]Resolver{
		"tcp://127.0.0.1:80?protocol=grpc": Single("tcp"),
		"unix:///run/a.sock":               Single("unix"),
		"static://a:1,b:2?weight=3,1":      Static(),
	} {
		if err := resolver.(Checker).Check(mustParse(t, target)); err != nil {
			t.Error(err)
		}
	}
}

// A static list is delivered once, and Watch blocks until its context ends.
func TestStaticWatchBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		delivered, ended := 0, false
		go func() {
			err := Static().Watch(ctx, mustParse(t, "static://a:1"), func(Snapshot) { delivered++ })
			if !errors.Is(err, context.Canceled) {
				t.Errorf("Watch returned %v", err)
			}
			ended = true
		}()
		synctest.Wait()
		if delivered != 1 || ended {
			t.Errorf("delivered %d times, ended %v", delivered, ended)
		}
		cancel()
		synctest.Wait()
		if !ended {
			t.Error("Watch outlives its context")
		}
	})
}
