package nacos

import (
	"encoding/json"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

func TestAddressOf(t *testing.T) {
	for endpoints, want := range map[string]address{
		"h:1":                       {"h", 1},
		"/run/x h:2":                {"h", 2},
		"[2001:db8::1]:3 h:4":       {"2001:db8::1", 3},
		"[fe80::1%eth0]:5":          {"fe80::1", 5},
		"h:0 :6 h:http h:65536 h:7": {"h", 7},
		"/run/x":                    {},
		":8":                        {},
	} {
		in := tandem.Instance{ID: "a"}
		for address := range strings.FieldsSeq(endpoints) {
			in.Endpoints = append(in.Endpoints, tandem.Endpoint{Transport: "tcp", Address: address})
		}
		got, err := addressOf(&in)
		if got != want || (err != nil) != (want == address{}) {
			t.Errorf("%s: got %v and %v", endpoints, got, err)
		}
	}
}

func TestWeights(t *testing.T) {
	for _, c := range []struct {
		listed int
		nacos  float64
		want   int // -1: out of use
	}{
		{0, 100, 0}, {100, 100, 100}, {7, 7, 7}, {0, 7, 7}, {7, 100, 100}, {7, 0.01, 1}, {7, 2.5, 3}, {7, 1e300, tandem.MaxWeight}, {7, 0, -1}, {7, -3, -1},
	} {
		in := server(1)
		in.Weight = c.listed
		data := []byte(text(host{IP: "10.1.0.1", Port: 8972, Weight: c.nacos, Metadata: map[string]string{key: text(in)}}))
		found := collectHosts([]json.RawMessage{data}, func(key string, err error) { t.Error(key, err) })
		got, there := found["10.1.0.1:8972"]
		if there != (c.want >= 0) || there && got.Weight != c.want {
			t.Errorf("listed %d, in Nacos %v: got %d, %v", c.listed, c.nacos, got.Weight, there)
		}
	}
}

func TestInstancesWithOneID(t *testing.T) {
	early, late, same := server(1), server(2), server(3)
	late.ID, same.ID = early.ID, early.ID
	late.Started = early.Started.Add(time.Second)
	refused := map[string]bool{}
	found := map[string]tandem.Instance{"c:1": early, "b:1": late, "a:1": same, "d:1": server(4)}
	dropTwins(found, func(key string, _ error) { refused[key] = true })
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, []string{"b:1", "d:1"}) || !maps.Equal(refused, map[string]bool{"a:1": true, "c:1": true}) {
		t.Errorf("left %v, refused %v", got, refused)
	}
}

func TestListIsBounded(t *testing.T) {
	list, err := hosts([]byte(`{"hosts":[` + strings.Repeat("1,", 3*registry.MaxInstances) + `1]}`))
	if err != nil || len(list) != 2*registry.MaxInstances {
		t.Errorf("got %d hosts and %v", len(list), err)
	}
}

// FuzzList reads any list, which must yield only valid instances, with unique IDs.
func FuzzList(f *testing.F) {
	answer := text(map[string]any{"hosts": []host{
		{IP: "10.1.0.1", Port: 8972, Weight: 1, Metadata: map[string]string{key: text(server(1))}},
		{IP: "10.1.0.2", Port: 8972, Weight: 1e9, Metadata: map[string]string{key: "{}"}},
	}})
	f.Add([]byte(answer))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := hosts(data)
		if err != nil {
			return
		}
		ids := map[string]bool{}
		for at, in := range collectHosts(list, func(string, error) {}) {
			if err := in.Validate(); err != nil || ids[in.ID] {
				t.Errorf("%s: %q, %v, seen %v", at, in.ID, err, ids[in.ID])
			}
			ids[in.ID] = true
		}
	})
}

// FuzzDescribe describes an instance with any tag and reads it back, with and
// without a second decoding.
func FuzzDescribe(f *testing.F) {
	f.Add("k", "a+b%20c%zz\\u0025 é🚲\"")
	f.Fuzz(func(t *testing.T, name, value string) {
		in := server(1)
		in.Tags = map[string]string{name: value}
		q := url.Values{}
		written, err := describe(q, &in, time.Second)
		if err != nil {
			return
		}
		want, err := adapter.Decode([]byte(written))
		if err != nil {
			t.Fatal(err)
		}
		again, err := url.QueryUnescape(q.Get("metadata"))
		if err != nil || again != q.Get("metadata") {
			t.Fatalf("a second decoding of %q gives %q, %v", q.Get("metadata"), again, err)
		}
		h := host{IP: "10.1.0.1", Port: 8972, Weight: 100}
		if err := json.Unmarshal([]byte(again), &h.Metadata); err != nil {
			t.Fatal(err)
		}
		if got, err := h.instance(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v and %v, want %+v", got, err, want)
		}
	})
}
