package redis

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func mustParse(t testing.TB, s string) registry.Target {
	target, err := registry.ParseTarget(s)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func instance(id string) tandem.Instance {
	return tandem.Instance{ID: id, Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:8972"}}}
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		target string
		want   place
	}{
		{"redis://h/a", place{list: "a", addrs: []string{"h:6379"}}},
		{"redis://h:1/prod/Arith/?ttl=3s&db=2", place{list: "prod/Arith", addrs: []string{"h:1"}, ttl: 3 * time.Second, db: 2}},
		{"redis://h:1,[::1]:2/a", place{list: "a", addrs: []string{"h:1", "[::1]:2"}, cluster: true}},
		{"redis://h:1/a?cluster=true", place{list: "a", addrs: []string{"h:1"}, cluster: true}},
		{"redis://h,[::1]/a?master=m&db=3", place{list: "a", addrs: []string{"h:26379", "[::1]:26379"}, master: "m", db: 3}},
	} {
		got, err := parse(mustParse(t, tc.target))
		if err != nil || !same(got, tc.want) {
			t.Errorf("%s: got %+v, %v", tc.target, got, err)
		}
	}
}

func same(a, b place) bool {
	return strings.Join(a.addrs, " ") == strings.Join(b.addrs, " ") &&
		a.list == b.list && a.ttl == b.ttl && a.db == b.db && a.master == b.master && a.cluster == b.cluster
}

func TestBadTargets(t *testing.T) {
	for target, want := range map[string]string{
		"redis://h:1":                    "want redis://host:port/base/Service",
		"redis://h:1/":                   "want redis://host:port/base/Service",
		"redis://h:1/a{b}":               "without braces",
		"redis://h:0/a":                  "bad address",
		"redis://h:70000/a":              "bad address",
		"redis:///a":                     "bad address",
		"redis://h,/a":                   "bad address",
		"redis://h:1/a?tll=3s":           "unknown option",
		"redis://h:1/a?ttl=1":            "bad ttl",
		"redis://h:1/a?ttl=10ms":         "bad ttl",
		"redis://h:1/a?db=-1":            "bad db",
		"redis://h:1/a?cluster=maybe":    "bad cluster",
		"redis://h:1,g:1/a?db=1":         "leave out db",
		"redis://h:1/a?cluster=1&db=1":   "leave out db",
		"redis://h/a?cluster=1&master=m": "leave out db",
	} {
		if _, err := New(target); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("New(%q): %v, want %q", target, err, want)
		}
		r := Resolver()
		if err := r.(registry.Checker).Check(mustParse(t, target)); err == nil {
			t.Errorf("Check(%q) is content", target)
		}
		if err := r.Watch(t.Context(), mustParse(t, target), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Watch(%q): %v", target, err)
		}
	}
	if _, err := New("::"); err == nil {
		t.Error("New takes anything")
	}
}

func TestServerOfAPlace(t *testing.T) {
	server := func(s string) string {
		at, err := parse(mustParse(t, s))
		if err != nil {
			t.Fatal(err)
		}
		key := at.server()
		again, err := parse(mustParse(t, key))
		if err != nil || again.server() != key {
			t.Errorf("%s: %s does not name the same server: %v", s, key, err)
		}
		return key
	}
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{"redis://h/a", "redis://h:6379/b?ttl=3s", true},
		{"redis://h,g/a", "redis://g,h/a", true},
		{"redis://h/a", "redis://g/a", false},
		{"redis://h/a", "redis://h/a?db=1", false},
		{"redis://h/a", "redis://h/a?cluster=true", false},
		{"redis://h/a?master=m", "redis://h/a?master=n", false},
	} {
		if got := server(tc.a) == server(tc.b); got != tc.same {
			t.Errorf("%s and %s: the same server: %v", tc.a, tc.b, got)
		}
	}
}

func TestTimeToLive(t *testing.T) {
	for _, tc := range []struct {
		opts   []Option
		target string
		want   time.Duration
	}{
		{nil, "redis://h/a", 15 * time.Second},
		{[]Option{WithTTL(5 * time.Second)}, "redis://h/a", 5 * time.Second},
		{[]Option{WithTTL(5 * time.Second)}, "redis://h/a?ttl=2s", 2 * time.Second},
		{[]Option{WithTTL(time.Millisecond)}, "redis://h/a", time.Second},
		{[]Option{WithTTL(-1), WithLogger(nil)}, "redis://h/a", 15 * time.Second},
	} {
		r, err := New(tc.target, tc.opts...)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.options.ttlOf(*r.own); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.target, got, tc.want)
		}
		r.Close()
	}
}

func TestResolverDoesNotRegister(t *testing.T) {
	if _, err := Resolver().(*Registry).Register(t.Context(), instance("a")); err == nil {
		t.Error("it did")
	}
}

// TestNoServer: without a server, Watch delivers errors from the start, and never an empty
// list.
func TestNoServer(t *testing.T) {
	r, err := New("redis://127.0.0.1:1/a")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Register(t.Context(), instance("a")); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("Register: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard := 0
	err = r.Watch(ctx, registry.Target{}, func(s registry.Snapshot) {
		if s.Err == nil {
			t.Errorf("a list: %+v", s)
		}
		if heard++; heard == 3 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestLineThatFailsAtOnce: a line may fail before its first receiver waits. wait then returns
// the reason.
func TestLineThatFailsAtOnce(t *testing.T) {
	down := errors.New("nobody is there")
	c := newConnection(goredis.NewClient(&goredis.Options{
		Dialer: func(context.Context, string, string) (net.Conn, error) { return nil, down },
	}))
	defer c.close()
	for i := range 10_000 {
		rcv := c.listen("a")
		if rcv == nil {
			t.Fatalf("line %d has broken without a word", i)
		}
		if err := rcv.wait(t.Context(), time.Minute, rcv.news); !errors.Is(err, down) {
			t.Fatalf("line %d: %v", i, err)
		}
		rcv.close()
	}
}

func TestDecode(t *testing.T) {
	good, err := adapter.Encode(instance("a"))
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[any]string{
		"owner " + string(good): "",
		string(good):            "", // as if written by hand
		"":                      "no JSON object",
		"owner []":              "no JSON object",
		"owner {":               "unexpected end",
		`owner {"id":"a"}`:      "no endpoint",
		`owner {"id":"a","weight":99999999,"endpoints":[{"transport":"tcp","address":"b:1"}]}`: "weight",
		`owner {"id":"b","endpoints":[{"transport":"tcp","address":"b:1"}]}`:                   `says that its id is "b"`,
		int64(1 << 20): "1048576 bytes",
		nil:            "bytes",
	} {
		in, err := decodeAs("a", value)
		if want == "" && (err != nil || in.ID != "a") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60v: %+v, %v", value, in, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("owner {\"id\":\"a\"}")
	f.Add(`x {"id":"a","endpoints":[{"transport":"tcp","address":"b:1"}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		if in, err := decodeAs("a", text); err == nil && (in.ID != "a" || in.Validate() != nil) {
			t.Errorf("%q was taken for %+v", text, in)
		}
	})
}

// TestOutageKeepsKnownInstances: an instance that was listed before an outage stays for one time
// to live after it, also if it is not listed again.
func TestOutageKeepsKnownInstances(t *testing.T) {
	data, err := adapter.Encode(instance("a"))
	if err != nil {
		t.Fatal(err)
	}
	full := []any{"a", "owner " + string(data), int64(4000)}
	w := &watch{list: "l", ttl: 10 * time.Second}
	now := time.Now()
	step := func(after time.Duration, fields []any, known int, due time.Duration) {
		t.Helper()
		now = now.Add(after)
		if got := w.mirror(fields, new(adapter.Mirror), now); got != due+lateBy || len(w.known) != known {
			t.Errorf("%d known, again after %v; want %d, %v", len(w.known), got, known, due)
		}
	}
	step(0, full, 1, 4*time.Second)
	step(0, nil, 0, 10*time.Second)
	step(0, full, 1, 4*time.Second)
	w.trouble = true
	step(time.Hour, nil, 1, 10*time.Second)
	step(8*time.Second, nil, 1, 2*time.Second)
	step(time.Second, full, 1, time.Second)
	step(time.Second, nil, 0, 10*time.Second)
}
