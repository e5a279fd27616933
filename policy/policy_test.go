package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const whole = `{
	"version": "7",
	"balancer": {"route": true, "zone": "eu-1", "slowStart": "30s", "sticky": true, "pick": "maglev"},
	"ejection": {"window": "5s", "minCalls": 10, "failureRate": 0.2, "latencyFactor": 3, "consecutive": -1, "pause": "5s", "maxPause": "5m", "maxShare": 0.5},
	"retryBudget": {"share": 0.1, "perSecond": 10},
	"default": {"timeout": "2s", "failMode": "failover", "retries": 2},
	"methods": {
		"Orders.Get": {"idempotent": true, "failMode": "backup", "attemptTimeout": "300ms"},
		"Orders.*": {"timeout": "1s", "retries": 0, "breaker": {"off": true}}
	}
}`

func TestParse(t *testing.T) {
	p, err := policy.Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	again, err := policy.Parse(text)
	if err != nil || !reflect.DeepEqual(p, again) {
		t.Errorf("what was written differs: %s, %v", text, err)
	}
	if time.Duration(p.Ejection.MaxPause) != 5*time.Minute || p.Methods["Orders.*"].Retries == nil {
		t.Errorf("parsed %s", text)
	}
}

func TestForInheritsFieldByField(t *testing.T) {
	p, err := policy.Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	get, put, other := p.For("Orders.Get"), p.For("Orders.Put"), p.For("Other.Do")
	if get.FailMode != "backup" || !*get.Idempotent || time.Duration(get.AttemptTimeout) != 300*time.Millisecond ||
		time.Duration(get.Timeout) != time.Second || *get.Retries != 0 || !get.Breaker.Off {
		t.Errorf("Orders.Get: %+v", get)
	}
	if put.FailMode != "failover" || put.Idempotent != nil || time.Duration(put.Timeout) != time.Second || *put.Retries != 0 {
		t.Errorf("Orders.Put: %+v", put)
	}
	if other.FailMode != "failover" || time.Duration(other.Timeout) != 2*time.Second || *other.Retries != 2 || other.Breaker != nil {
		t.Errorf("Other.Do: %+v", other)
	}
	if odd := p.For("nodot"); odd.FailMode != "failover" {
		t.Errorf("a name without a dot: %+v", odd)
	}
}

// document is one of testdata/documents.json, which tests of policy/yaml share.
type document struct {
	Text  string `json:"text"`
	Error string `json:"error"` // part of the error; "" for a valid document
}

func documents(t testing.TB) (list []document) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "documents.json"))
	if err == nil {
		err = json.Unmarshal(text, &list)
	}
	if err != nil || len(list) < 50 {
		t.Fatalf("%d documents: %v", len(list), err)
	}
	return list
}

func TestParseTakesAndRefuses(t *testing.T) {
	long := document{strings.Repeat(" ", policy.MaxSize+1), "limit"}
	for _, d := range append(documents(t), long) {
		_, err := policy.Parse([]byte(d.Text))
		if (err == nil) != (d.Error == "") || err != nil && !strings.Contains(err.Error(), d.Error) {
			t.Errorf("%.200s: %v; want an error with %q", d.Text, err, d.Error)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, d := range documents(f) {
		f.Add([]byte(d.Text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := policy.Parse(text)
		if err != nil {
			return
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := policy.Parse(again); err != nil {
			t.Errorf("%s is taken, but not when written again as %s: %v", text, again, err)
		}
		p.For("A.B")
	})
}

var write = flag.Bool("write-schema", false, "write docs/policy.schema.json")

func TestSchemaIsPublished(t *testing.T) {
	path := filepath.Join("..", "docs", "policy.schema.json")
	if *write {
		if err := os.WriteFile(path, policy.Schema(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	published, err := os.ReadFile(path)
	if err != nil || string(published) != string(policy.Schema()) {
		t.Errorf("docs/policy.schema.json is stale; run go generate ./policy (%v)", err)
	}
}

// next returns the next delivery of a source.
func next(t *testing.T, updates <-chan string) string {
	t.Helper()
	select {
	case u := <-updates:
		return u
	case <-time.After(10 * time.Second):
		t.Fatal("no update")
		return ""
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.json")
	ctx, cancel := context.WithCancel(t.Context())
	updates := make(chan string)
	ended := make(chan error, 1)
	go func() {
		ended <- policy.File(path).Watch(ctx, func(text []byte, err error) { updates <- fmt.Sprint(string(text), errors.Is(err, os.ErrNotExist)) })
	}()
	put := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "true"},
		{func() { put("{}") }, "{}false"},
		{func() { put("[]") }, "[]false"},
		{func() { os.Remove(path) }, "true"},
		{func() { put("[]") }, "[]false"}, // the same text, but the file was gone
	} {
		step.do()
		if got := next(t, updates); got != step.want {
			t.Errorf("delivered %q, want %q", got, step.want)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch returned %v", err)
	}
}

func TestFileTakesReports(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.json")
	r := policy.File(path).(policy.Reporter)
	for _, version := range []string{"1", "2"} {
		for _, client := range []string{"a/../b", "c"} {
			if err := r.Report(t.Context(), policy.Applied{Client: client, Version: version, At: time.Now()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(path+".applied", "*.json"))
	if err != nil || len(files) != 2 {
		t.Fatalf("two clients made %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil || !strings.Contains(string(text), `"version": "2"`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestVersionOf(t *testing.T) {
	if v := policy.VersionOf([]byte(whole)); v != "7" {
		t.Errorf("version %q, want its own", v)
	}
	one, two := policy.VersionOf([]byte("{}")), policy.VersionOf([]byte("{ }"))
	if one == two || len(one) != 12 {
		t.Errorf("versions %q and %q", one, two)
	}
}

func ExampleParse() {
	p, err := policy.Parse([]byte(`{
		"default": {"timeout": "2s", "failMode": "failover"},
		"methods": {"Orders.*": {"timeout": "500ms"}}
	}`))
	fmt.Println(time.Duration(p.For("Orders.Get").Timeout), p.For("Orders.Get").FailMode, err)
	_, err = policy.Parse([]byte(`{"default": {"failMode": "hope"}}`))
	fmt.Println(err)
	// Output:
	// 500ms failover <nil>
	// policy: default.failMode: "hope" is none of failfast, failover, failtry, failsafe, failback, backup, broadcast, fork
}

// A policy in a file is checked once a second. Clients report next to it.
func ExampleFile() {
	dir, err := os.MkdirTemp("", "policy")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "policy.json")
	if err := os.WriteFile(path, []byte(`{"version": "7"}`), 0o600); err != nil {
		panic(err)
	}
	src := policy.File(path)
	ctx, cancel := context.WithCancel(context.Background())
	_ = src.Watch(ctx, func(text []byte, err error) {
		fmt.Println(policy.VersionOf(text), err)
		cancel() // once is enough
	})
	_ = src.(policy.Reporter).Report(context.Background(), policy.Applied{Client: "till 7", Version: "7", InForce: "7"})
	list, err := src.(policy.Reports).Applied(context.Background())
	fmt.Println(list[0].Client, "goes by", list[0].InForce, err)
	// Output:
	// 7 <nil>
	// till 7 goes by 7 <nil>
}

// Documents may be in any format that can be converted to JSON; package policy/yaml converts
// YAML.
func ExampleDecoded() {
	list := registry.NewMemory()
	list.PutDocument("/policies/shop", []byte(`timeout of all calls: 2s`))
	src := policy.Decoded(policy.FromRegistry(list, "/policies/shop"), func(text []byte) ([]byte, error) {
		_, timeout, _ := strings.Cut(string(text), ": ")
		return fmt.Appendf(nil, `{"default": {"timeout": %q}}`, timeout), nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	_ = src.Watch(ctx, func(text []byte, err error) {
		fmt.Println(string(text), err)
		cancel() // once is enough
	})
	// Output: {"default": {"timeout": "2s"}} <nil>
}

// A registry keeps a policy as one of its documents.
func ExampleFromRegistry() {
	list := registry.NewMemory() // or etcd.New(…), zookeeper.New(…), file.New(…)
	list.PutDocument("/policies/shop", []byte(`{"version": "7"}`))
	src := policy.FromRegistry(list, "/policies/shop")
	ctx, cancel := context.WithCancel(context.Background())
	_ = src.Watch(ctx, func(text []byte, err error) {
		fmt.Println(policy.VersionOf(text), err)
		cancel() // once is enough
	})
	// Output: 7 <nil>
}

// A document that can't be decoded is delivered as an error, and reports are passed on.
func TestDecoded(t *testing.T) {
	list := registry.NewMemory()
	list.PutDocument("k", []byte("x"))
	wrong := errors.New("wrong")
	for _, src := range []policy.Source{policy.FromRegistry(list, "k"), onlyReports{policy.FromRegistry(list, "k")}, onlyWatches{policy.FromRegistry(list, "k")}} {
		d := policy.Decoded(src, func([]byte) ([]byte, error) { return []byte("half"), wrong })
		ctx, cancel := context.WithCancel(t.Context())
		_ = d.Watch(ctx, func(text []byte, err error) {
			if text != nil || !errors.Is(err, wrong) {
				t.Errorf("delivered %q, %v", text, err)
			}
			cancel()
		})
		_, takes := src.(policy.Reporter)
		_, lists := src.(policy.Reports)
		_, stillTakes := d.(policy.Reporter)
		_, stillLists := d.(policy.Reports)
		if takes != stillTakes || lists != stillLists {
			t.Errorf("%T: %v and %v become %v and %v", src, takes, lists, stillTakes, stillLists)
		}
	}
}

type onlyReports struct{ policy.Source }

func (onlyReports) Report(context.Context, policy.Applied) error { return nil }

type onlyWatches struct{ policy.Source }

// A text that is no report is named in the error, and the others are returned.
func TestTextsThatAreNoReports(t *testing.T) {
	list := registry.NewMemory()
	src := policy.FromRegistry(list, "k")
	for _, client := range []string{"b", "a"} {
		if err := src.(policy.Reporter).Report(t.Context(), policy.Applied{Client: client}); err != nil {
			t.Fatal(err)
		}
	}
	if err := list.PutReport(t.Context(), "k", "stranger", []byte("hello"), time.Minute); err != nil {
		t.Fatal(err)
	}
	all, err := src.(policy.Reports).Applied(t.Context())
	if len(all) != 2 || all[0].Client != "a" || err == nil || !strings.Contains(err.Error(), `"stranger"`) {
		t.Errorf("%+v, %v", all, err)
	}
}

// Reports next to a file expire.
func TestFileForgetsReports(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.json")
	src := policy.File(path)
	report := func(client string) {
		t.Helper()
		if err := src.(policy.Reporter).Report(t.Context(), policy.Applied{Client: client}); err != nil {
			t.Fatal(err)
		}
	}
	report("old")
	files, _ := filepath.Glob(filepath.Join(path+".applied", "*"))
	before := time.Now().Add(-policy.ReportLife - time.Second)
	for _, f := range files {
		if err := os.Chtimes(f, before, before); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := src.(policy.Reports).Applied(t.Context()); len(files) != 1 || len(all) != 0 || err != nil {
		t.Errorf("of %d files %+v, %v", len(files), all, err)
	}
	report("new")
	if files, _ = filepath.Glob(filepath.Join(path+".applied", "*")); len(files) != 1 {
		t.Errorf("left are %v", files)
	}
}
