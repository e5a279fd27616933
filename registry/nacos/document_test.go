package nacos

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/nacos/internal/standin"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// publish writes a configuration as Nacos's console does; an empty text deletes it.
func (b *backend) publish(t testing.TB, dataID string, text []byte) error {
	method, pairs := http.MethodDelete, []string{"dataId", dataID, "group", groupOf(t)}
	if len(text) > 0 {
		method, pairs = http.MethodPost, append(pairs, "content", string(text))
	}
	body, err := b.ask(t, method, configPath, "unused", pairs...)
	if err == nil && body != "true" {
		err = fmt.Errorf("publishing is answered with %q", body)
	}
	return err
}

func TestDocuments(t *testing.T) { checkDocuments(t, standIn(t)) }

func checkDocuments(t *testing.T, b *backend) {
	r := b.registry(t, "S")
	key := "/" + groupOf(t) + "/shop.json"
	var checked registry.Documents = r
	if !b.swaps {
		checked = struct{ registry.Documents }{r}
		noSwaps(t, r, key)
	}
	if err := registrytest.CheckDocuments(t.Context(), registrytest.DocumentHarness{
		Documents: checked, Key: key, Name: name, Within: b.within, Outage: b.relay.outage,
		Put: func(text []byte) error { return b.publish(t, "shop.json", text) },
	}); err != nil {
		t.Error(err)
	}
	largest := strings.Repeat("x", registry.MaxReport)
	if err := r.PutReport(t.Context(), key, strings.Repeat("ä", 128), []byte(largest), time.Minute); err != nil {
		t.Error(err)
	}
	if all, err := r.Reports(t.Context(), key); err != nil || string(all[strings.Repeat("ä", 128)]) != largest {
		t.Errorf("the largest report: there are %d, %v", len(all), err)
	}
	for _, bad := range []string{"", "/", "shop", "/shop/", "/a/b/c", "/a b", "/a/" + strings.Repeat("x", 241)} {
		if err := r.WatchDocument(t.Context(), bad, func([]byte, error) {}); err == nil {
			t.Errorf("key %q is taken", bad)
		}
	}
}

// noSwaps: a Nacos that ignores casMd5 is found out, and SwapDocument writes nothing.
func noSwaps(t *testing.T, r *Registry, key string) {
	for range 2 {
		if err := r.SwapDocument(t.Context(), key, nil, []byte("swapped")); !errors.Is(err, errNoSwaps) || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("a swap: %v", err)
		}
		if text, err := r.ReadDocument(t.Context(), key); err != nil || text != nil {
			t.Errorf("after a swap that failed there is %q, %v", text, err)
		}
	}
}

// TestNoSwaps: versions before 2.3.0 ignore casMd5, and two others don't use it.
func TestNoSwaps(t *testing.T) {
	for what, stand := range map[string]*standin.Server{"ignored": {}, "itself": {SwapsItself: true}} {
		t.Run(what, func(t *testing.T) {
			web := httptest.NewServer(stand)
			t.Cleanup(web.Close)
			b := &backend{direct: web.Listener.Addr().String(), ttl: 3 * time.Second, poll: time.Second, within: 30 * time.Second}
			b.open(t)
			noSwaps(t, b.registry(t, "S"), "/"+groupOf(t)+"/d")
		})
	}
}

// TestSwapIsSentOnce: a publish whose response is lost is not sent to another server, which
// would refuse the text that the first one has stored.
func TestSwapIsSentOnce(t *testing.T) {
	stand := &standin.Server{Swaps: true}
	lost := false
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		stand.ServeHTTP(w, q)
		if lost && q.Method == http.MethodPost {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(web.Close)
	other := httptest.NewServer(stand)
	t.Cleanup(other.Close)
	r, err := New("nacos://" + web.Listener.Addr().String() + "," + other.Listener.Addr().String() + "/shop/S")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if err := r.SwapDocument(t.Context(), "/shop/d", nil, []byte("one")); err != nil {
		t.Fatal(err)
	}
	lost = true
	err = r.SwapDocument(t.Context(), "/shop/d", []byte("one"), []byte("two"))
	if err == nil || errors.Is(err, registry.ErrChanged) {
		t.Errorf("a swap whose response is lost: %v", err)
	}
	if text, err := r.ReadDocument(t.Context(), "/shop/d"); err != nil || string(text) != "two" {
		t.Errorf("there is %q, %v", text, err)
	}
}

// TestOverridesKey: the document of a service has one key for all targets of the service, and
// different services have different ones, also if their names are long.
func TestOverridesKey(t *testing.T) {
	keys := map[string]bool{}
	for _, service := range []string{"S", "s", strings.Repeat("x", 223), strings.Repeat("x", 224), strings.Repeat("x", 511) + "1", strings.Repeat("x", 511) + "2"} {
		for _, target := range []string{"nacos://h:1/" + service, "nacos://h:1/DEFAULT_GROUP/" + service + "?cluster=east&ttl=9s"} {
			at, err := registry.ParseTarget(target)
			if err != nil {
				t.Fatal(err)
			}
			d, key, err := newResolver(nil).DocumentsOf(at)
			if err == nil {
				_, err = d.(documents).document(key)
			}
			if err != nil {
				t.Errorf("%.100s: %v", target, err)
			}
			keys[key] = true
		}
	}
	if len(keys) != 6 {
		t.Errorf("the keys of six services are %v", keys)
	}
}

func TestClientFollowsPolicy(t *testing.T) { followPolicy(t, standIn(t)) }

// followPolicy: a client follows its policy in Nacos, keeps it while Nacos can't be reached,
// and reports which one it applies.
func followPolicy(t *testing.T, b *backend) {
	r := b.registry(t, "S")
	source := policy.FromRegistry(r, "/"+groupOf(t)+"/shop")
	c, err := client.Dial("tcp://127.0.0.1:1", client.WithPolicyFrom(source, "till 7"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	until := func(what string, holds func() bool) {
		t.Helper()
		for end := time.Now().Add(b.within); !holds(); time.Sleep(20 * time.Millisecond) { // polls a condition
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
	if err := b.publish(t, "shop", []byte(`{"version": "1", "default": {"timeout": "2s"}}`)); err != nil {
		t.Fatal(err)
	}
	until("applied", reported(func(a policy.Applied) bool { return a.InForce == "1" && a.Error == "" }))
	if err := b.publish(t, "shop", []byte(`{"default": {"timeout": "soon"}}`)); err != nil {
		t.Fatal(err)
	}
	until("refused", reported(func(a policy.Applied) bool {
		return a.InForce == "1" && strings.Contains(a.Error, "default.timeout")
	}))
	b.relay.setCut(true)
	until("kept", func() bool { p := c.Policy(); return p.InForce == "1" && strings.Contains(p.Error, name) })
	b.relay.setCut(false)
	if err := b.publish(t, "shop", []byte(`{"version": "2"}`)); err != nil {
		t.Fatal(err)
	}
	until("applied again", reported(func(a policy.Applied) bool { return a.InForce == "2" && a.Error == "" }))
}

// TestManyDocuments: watches beyond those that have a listener poll, and listeners leave
// connections for other requests.
func TestManyDocuments(t *testing.T) {
	b := standIn(t)
	r := b.registry(t, "S")
	seen := make(chan string, 100)
	for i := range 3 * perServer {
		key := fmt.Sprintf("/%s/d%d", groupOf(t), i)
		ended := make(chan error, 1)
		ctx := t.Context()
		go func() {
			ended <- r.WatchDocument(ctx, key, func(text []byte, err error) {
				if err == nil {
					seen <- string(text)
				}
			})
		}()
		t.Cleanup(func() { <-ended })
	}
	for i := range 3 * perServer {
		if err := r.SwapDocument(t.Context(), fmt.Sprintf("/%s/d%d", groupOf(t), i), nil, fmt.Append(nil, i)); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]bool{}
	for end := time.After(b.within); len(all) < 3*perServer; {
		select {
		case text := <-seen:
			all[text] = true
		case <-end:
			t.Fatalf("%d of %d documents are seen", len(all), 3*perServer)
		}
	}
}

// TestDeafListener: a change that Nacos's listener misses is seen when the listener's time
// is over.
func TestDeafListener(t *testing.T) {
	t.Parallel() // it waits
	stand := &standin.Server{Deaf: true}
	web := httptest.NewServer(stand)
	t.Cleanup(web.Close)
	b := &backend{direct: web.Listener.Addr().String(), ttl: 3 * time.Second, poll: time.Second, within: 30 * time.Second}
	b.open(t)
	r := b.registry(t, "S")
	seen, ended := make(chan string, 10), make(chan error, 1)
	ctx := t.Context()
	go func() {
		ended <- r.WatchDocument(ctx, "/"+groupOf(t)+"/d", func(text []byte, err error) { seen <- fmt.Sprintf("%s %v", text, err) })
	}()
	t.Cleanup(func() { <-ended })
	<-seen // that there is none
	if err := b.publish(t, "d", []byte("new")); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-seen:
		if got != "new <nil>" {
			t.Errorf("delivered is %s", got)
		}
	case <-time.After(b.within):
		t.Error("a change that the listener misses is never seen")
	}
}

// TestReportsAreBounded: the number of reports on a document is limited.
func TestReportsAreBounded(t *testing.T) {
	b := standIn(t)
	r := b.registry(t, "S")
	key := "/" + groupOf(t) + "/d"
	d, err := r.document(key)
	if err != nil {
		t.Fatal(err)
	}
	d.mostReports = 3
	for i := range d.mostReports {
		if err := d.putReport(t.Context(), fmt.Sprint(i), []byte("{}"), time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.putReport(t.Context(), "one more", nil, time.Minute); !errors.Is(err, registry.ErrReports) {
		t.Errorf("one more: %v", err)
	}
	if err := d.putReport(t.Context(), "1", []byte("again"), time.Minute); err != nil {
		t.Errorf("one again: %v", err)
	}
	if all, err := r.Reports(t.Context(), key); err != nil || len(all) != d.mostReports || string(all["1"]) != "again" {
		t.Errorf("%d reports, %q, %v", len(all), all["1"], err)
	}
}

// TestPiecesFit: a piece has no more characters than a Nacos with limits accepts.
func TestPiecesFit(t *testing.T) {
	web := httptest.NewServer(&standin.Server{MaxMetadata: 1024, DecodeTwice: true})
	t.Cleanup(web.Close)
	b := &backend{direct: web.Listener.Addr().String(), ttl: 3 * time.Second, poll: time.Second, within: 30 * time.Second}
	b.open(t)
	r := b.registry(t, "S")
	key, reporter, report := "/"+groupOf(t)+"/d", strings.Repeat("\xff", 256), strings.Repeat("%41", 5000)
	if err := r.PutReport(t.Context(), key, reporter, []byte(report), 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	if all, err := r.Reports(t.Context(), key); err != nil || all[reporter] != nil && string(all[reporter]) != report || len(all) != 1 {
		t.Errorf("%d reports, %v", len(all), err)
	}
}

func FuzzGather(f *testing.F) {
	piece := func(ip string, port int, q url.Values) string {
		return fmt.Sprintf(`{"ip":%q,"port":%d,"metadata":%s}`, ip, port, q.Get("metadata"))
	}
	c := cut("me", []byte(strings.Repeat("report ", 100)), time.Minute)
	var hosts []string
	for i := range c.pieces {
		q := url.Values{}
		if err := c.describe(q, i); err != nil {
			f.Fatal(err)
		}
		hosts = append(hosts, piece(reportAddress("me").String(), i+1, q))
	}
	f.Add([]byte("[" + strings.Join(hosts, ",") + "]"))
	f.Add([]byte("[" + hosts[0] + "]"))
	f.Add([]byte(`[{"ip":"fd00::","port":1,"metadata":{"tandem-pieces":"-1"}},null,7]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		reports, err := gather(data)
		for reporter, report := range reports {
			if len(report) > registry.MaxReport || reporter != "me" && !strings.Contains(string(data), encoding.EncodeToString([]byte(reporter))) {
				t.Errorf("%q reports %d bytes, %v", reporter, len(report), err)
			}
		}
	})
}
