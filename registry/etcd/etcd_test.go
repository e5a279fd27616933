package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

func instance(id string) tandem.Instance {
	return tandem.Instance{ID: id, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:8972"}}}
}

func TestTargets(t *testing.T) {
	for _, c := range []struct {
		target string
		opts   []Option
		want   place
		says   string
	}{
		{"etcd://h1:2379/shop/Cart", nil, place{servers: "h1:2379", dir: "/shop/Cart", ttl: 15 * time.Second, layout: own{}}, ""},
		{"etcd://h2:2,h1:1,h2:2/Cart/", nil, place{servers: "h1:1,h2:2", dir: "/Cart", ttl: 15 * time.Second, layout: own{}}, ""},
		{"etcd://[::1]:2379/a%20b?ttl=1m", []Option{WithTTL(time.Hour)}, place{servers: "[::1]:2379", dir: "/a%20b", ttl: time.Minute, layout: own{}}, ""},
		{"etcd://h:1/a", []Option{WithTTL(2 * time.Second), WithRPCX()}, place{servers: "h:1", dir: "/a", ttl: 2 * time.Second, layout: rpcx{}}, ""},
		{"etcd://h:1/a?layout=rpcx", nil, place{servers: "h:1", dir: "/a", ttl: 15 * time.Second, layout: rpcx{}}, ""},
		{"etcd://h:1", nil, place{}, "names no directory"},
		{"etcd://h:1/", nil, place{}, "names no directory"},
		{"etcd:///a", nil, place{}, "want host:port"},
		{"etcd://h/a", nil, place{}, "want host:port"},
		{"etcd://h:1,/a", nil, place{}, "want host:port"},
		{"etcd://:1/a", nil, place{}, "want host:port"},
		{"etcd://h:1/a?ttl=15", nil, place{}, "no duration"},
		{"etcd://h:1/a?ttl=1s", nil, place{}, "whole seconds"},
		{"etcd://h:1/a?ttl=2h", nil, place{}, "whole seconds"},
		{"etcd://h:1/a?ttl=2500ms", nil, place{}, "whole seconds"},
		{"etcd://h:1/a", []Option{WithTTL(0)}, place{}, "whole seconds"},
		{"etcd://h:1/a?layout=dubbo", nil, place{}, "unknown layout"},
		{"etcd://h:1/a?tll=15s", nil, place{}, "unknown option"},
		{"://", nil, place{}, "bad scheme"},
	} {
		r, err := New(c.target, c.opts...)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %q", c.target, err, c.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.target, err)
			continue
		}
		if !reflect.DeepEqual(*r.own, c.want) {
			t.Errorf("%s: %+v, want %+v", c.target, *r.own, c.want)
		}
	}
}

func TestResolverChecksTargets(t *testing.T) {
	r := Resolver(WithLogger(nil))
	bad := registry.Target{Scheme: "etcd", Authority: "h:1"}
	err := r.(registry.Checker).Check(bad)
	if err == nil || !strings.Contains(err.Error(), "names no directory") {
		t.Errorf("Check: %v", err)
	}
	if again := r.Watch(t.Context(), bad, nil); again == nil || again.Error() != err.Error() {
		t.Errorf("Watch: %v, but Check: %v", again, err)
	}
	if err := r.(registry.Checker).Check(registry.Target{}); err == nil {
		t.Error("the zero target is accepted")
	}
	if _, err := r.(registry.Registrar).Register(t.Context(), instance("a")); err == nil || !strings.Contains(err.Error(), "use New") {
		t.Errorf("a Resolver registers: %v", err)
	}
}

// unreachable returns a registry whose server does not exist.
func unreachable(t *testing.T, opts ...Option) *Registry {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	r, err := New("etcd://"+l.Addr().String()+"/a", opts...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Without a server, Register fails with an error that says why.
func TestRegisterWithoutServer(t *testing.T) {
	for name, opts := range map[string][]Option{"plain": nil, "password": {WithAuth("joe", "secret")}, "tls": {WithTLS(new(tls.Config))}} {
		t.Run(name, func(t *testing.T) {
			r := unreachable(t, opts...)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			_, err := r.Register(ctx, instance("a"))
			if err == nil || !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("Register: %v", err)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A watch without a server delivers errors that say why, and no list.
func TestWatchWithoutServer(t *testing.T) {
	r := unreachable(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := r.Watch(ctx, registry.Target{}, func(s registry.Snapshot) {
		if s.Err == nil {
			t.Error("there is a list")
		} else if strings.Contains(s.Err.Error(), "connection refused") {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("no error said why until Watch returned %v", err)
	}
}

func TestClosedRegistry(t *testing.T) {
	r := unreachable(t)
	if err := errors.Join(r.Close(), r.Close()); err != nil {
		t.Error(err)
	}
	if _, err := r.Register(t.Context(), instance("a")); !errors.Is(err, errClosed) {
		t.Errorf("a closed registry registers: %v", err)
	}
}

func TestInvalidInstance(t *testing.T) {
	r := unreachable(t)
	defer r.Close()
	if _, err := r.Register(t.Context(), tandem.Instance{ID: "a"}); err == nil || !strings.Contains(err.Error(), "no endpoint") {
		t.Errorf("Register: %v", err)
	}
}

func TestOwnLayout(t *testing.T) {
	in := instance("tcp://10.0.0.7:8972")
	key, err := own{}.key(&in)
	if want := "tcp:%2F%2F10.0.0.7:8972"; err != nil || key != want {
		t.Errorf("key %q, %v; want %q", key, err, want)
	}
	value, err := own{}.encode(&in)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := (own{}).decode(key, value); err != nil || !reflect.DeepEqual(got, in) {
		t.Errorf("%+v, %v", got, err)
	}
	for _, other := range []string{"", "a", in.ID, key + "/"} {
		if _, err := (own{}).decode(other, value); err == nil || !strings.Contains(err.Error(), "whose key is another") {
			t.Errorf("key %q: %v", other, err)
		}
	}
}

// Entries as rpcx writes them, by the documentation of its etcd v3 plugin.
func TestRPCXEntries(t *testing.T) {
	server := func(change func(*tandem.Instance)) tandem.Instance {
		in := tandem.Instance{
			ID: "tcp://127.0.0.1:8972", Weight: 1,
			Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:8972", Protocol: "rpcx"}},
		}
		change(&in)
		return in
	}
	for _, c := range []struct {
		key, value string
		want       tandem.Instance
		says       string
	}{
		{"tcp@127.0.0.1:8972", "", server(func(*tandem.Instance) {}), ""},
		{"tcp@127.0.0.1:8972", "weight=7&group=test&state=active&latitude=52.5&longitude=-13.4&calls=12.30&connections=0.02&color=red",
			server(func(in *tandem.Instance) {
				in.Weight, in.Group, in.Tags = 7, "test", map[string]string{"color": "red"}
				in.Position = &tandem.Position{Latitude: 52.5, Longitude: -13.4}
			}), ""},
		{"tcp@127.0.0.1:8972", "state=inactive", tandem.Instance{}, "inactive"},
		{"tcp@127.0.0.1:8972", "weight=seven", tandem.Instance{}, "weight"},
		{"tcp@127.0.0.1:8972", "weight=-1", tandem.Instance{}, "weight"},
		{"tcp@127.0.0.1:8972", "weight=1000000", tandem.Instance{}, "weight"},
		{"tcp@127.0.0.1:8972", "latitude=north&longitude=0", tandem.Instance{}, "north"},
		{"tcp@127.0.0.1:8972", "latitude=91&longitude=0", tandem.Instance{}, "nowhere on earth"},
		{"tcp@127.0.0.1:8972", "%zz", tandem.Instance{}, "escape"},
		{"127.0.0.1:8972", "", tandem.Instance{}, "endpoint"},
		{"tcp@", "", tandem.Instance{}, "endpoint"},
		{"tcp@127.0.0.1:8972", "tandem={}", tandem.Instance{}, "no id"},
		{"tcp@127.0.0.1:8972", "a=" + strings.Repeat("x", maxQuery), tandem.Instance{}, "limit"},
	} {
		got, err := rpcx{}.decode(c.key, []byte(c.value))
		switch {
		case c.says == "" && err != nil, c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)):
			t.Errorf("%s, %.100q: %v, want %q", c.key, c.value, err, c.says)
		case err == nil && !reflect.DeepEqual(got, c.want):
			t.Errorf("%s, %.100q: %+v, want %+v", c.key, c.value, got, c.want)
		}
	}
}

// Of an entry that tandem writes in rpcx's layout, rpcx reads its own fields, and tandem
// the whole instance.
func TestRPCXLayout(t *testing.T) {
	in := tandem.Instance{
		ID: "cart-1", Weight: 7, Group: "test", Version: "v2", Zone: "b", Incarnation: "x", Started: time.Unix(1000, 5).UTC(),
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "[::1]:8972"}, {Transport: "unix", Address: "/run/a.sock"}},
		Tags:      map[string]string{"color": "red & blue", "state": "inactive", "weight": "none"},
		Position:  &tandem.Position{Latitude: -33.8, Longitude: 151.2},
	}
	key, err := rpcx{}.key(&in)
	if err != nil || key != "tcp@[::1]:8972" {
		t.Errorf("key %q, %v", key, err)
	}
	value, err := rpcx{}.encode(&in)
	if err != nil {
		t.Fatal(err)
	}
	q, err := url.ParseQuery(string(value))
	if err != nil {
		t.Fatal(err)
	}
	q.Del("tandem")
	if want := "color=red+%26+blue&group=test&latitude=-33.8&longitude=151.2&weight=7"; q.Encode() != want {
		t.Errorf("rpcx sees %s, want %s", q.Encode(), want)
	}
	if got, err := (rpcx{}).decode(key, value); err != nil || !reflect.DeepEqual(got, in) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := (rpcx{}).decode("tcp@[::1]:1", value); err == nil {
		t.Error("an instance is decoded under another key")
	}
	in.Endpoints = in.Endpoints[1:]
	if _, err := (rpcx{}).key(&in); err == nil || !strings.Contains(err.Error(), "can't hold") {
		t.Errorf("an instance with a path as its address: %v", err)
	}
}

// FuzzDecode decodes any key and value in both layouts: a decoded instance is valid, and
// its key is the one that it was decoded from.
func FuzzDecode(f *testing.F) {
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		for _, l := range []layout{own{}, rpcx{}} {
			in, err := l.decode(key, value)
			if err != nil {
				continue
			}
			if err := in.Validate(); err != nil {
				t.Errorf("%T: not valid: %v", l, err)
			}
			if again, err := l.key(&in); err != nil || again != key {
				t.Errorf("%T: the key %q became %q, %v", l, key, again, err)
			}
		}
	})
}
