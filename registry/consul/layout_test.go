package consul

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/hashicorp/consul/api"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry/adapter"
)

var arith = place{path: "/prod/Arith", service: "Arith", ttl: defaultTTL}

// Every instance up to the largest that can be encoded, in characters of one to four
// bytes, keeps to the limits of Consul's meta.
func TestEveryValidInstanceFits(t *testing.T) {
	for _, letter := range []string{"x", "é", "日", "🚲"} {
		for _, size := range []int{0, 1, 300, 512, 1024, 30 << 10, 31 << 10, 60 << 10, adapter.MaxEntry - 200} {
			in := instance("a")
			in.Version = strings.Repeat(letter, size/len(letter))
			reg, err := arith.registration(in)
			if err != nil {
				t.Fatal(err)
			}
			if why := badRegistration(reg); why != "" {
				t.Errorf("%d bytes of %q: %s", size, letter, why)
			}
			var sent api.AgentServiceRegistration // as Consul reads it
			if err := json.Unmarshal(must(json.Marshal(reg)), &sent); err != nil {
				t.Fatal(err)
			}
			got, mine, err := arith.instance(&api.AgentService{ID: sent.ID, Meta: sent.Meta, Tags: sent.Tags})
			if err != nil || !mine || got.Version != in.Version {
				t.Errorf("%d bytes of %q came back as %d: %v, %v", size, letter, len(got.Version), mine, err)
			}
		}
	}
}

func TestTooLargeIsRefused(t *testing.T) {
	in := instance("a")
	in.Version = strings.Repeat("x", adapter.MaxEntry)
	if _, err := arith.registration(in); err == nil {
		t.Error("an instance that is too large to be decoded was accepted")
	}
}

func TestServiceIDs(t *testing.T) {
	seen := map[string]string{}
	long := strings.Repeat("x", tandem.MaxInstanceID-1)
	for _, p := range []place{arith, {path: "/Arith"}, {path: "/prod/arith"}, {path: "/prod/Arith@a"}} {
		for _, id := range []string{"a", "A", "a@", ".", "..", "a/b", "a%2fb", "a=2fb", long + "1", long + "2", "日本"} {
			got := p.serviceID(id)
			if len(got) > maxPlain+65 || strings.ToLower(got) != got || strings.ContainsAny(got, "/%? ") {
				t.Errorf("the ID of %q in %s is %q", id, p.path, got)
			}
			if other, taken := seen[got]; taken {
				t.Errorf("%q in %s and %s have the ID %q", id, p.path, other, got)
			}
			seen[got] = id + " in " + p.path
		}
	}
	if got, want := arith.serviceID("tcp://10.0.0.1:8972"), "tcp:=2f=2f10.0.0.1:8972@prod=2f=41rith"; got != want {
		t.Errorf("got %q, the documentation shows %q", got, want)
	}
	if got := (place{service: "a B?"}).serviceName(); got != "a=20B=3f" {
		t.Errorf("the name is %q", got)
	}
}

func TestAddress(t *testing.T) {
	for _, c := range []struct {
		endpoints string
		host      string
		port      int
	}{
		{"10.0.0.1:80", "10.0.0.1", 80},
		{"/run/a.sock [::1]:81", "::1", 81},
		{"0.0.0.0:80 [::]:80 :80 host:82", "host", 82},
		{"host:http host:70000 host:-1", "", 0},
	} {
		var endpoints []tandem.Endpoint
		for a := range strings.FieldsSeq(c.endpoints) {
			endpoints = append(endpoints, tandem.Endpoint{Transport: "tcp", Address: a})
		}
		if host, port := address(endpoints); host != c.host || port != c.port {
			t.Errorf("%s: got %s and %d", c.endpoints, host, port)
		}
	}
}

// FuzzJoin splits and joins any text, and decodes any meta and tag.
func FuzzJoin(f *testing.F) {
	f.Add("a", "b", "")
	f.Add(`{"id":"a","endpoints":[{"transport":"tcp","address":"h:1"}]}`, "tail", restTag+"x")
	f.Add(strings.Repeat("🚲", 8000), "", restTag)
	f.Fuzz(func(t *testing.T, text, second, tag string) {
		valid := strings.ToValidUTF8(text, "")
		meta, tags := split(valid)
		for key, value := range meta {
			if len(value) > maxValue || !utf8.ValidString(value) {
				t.Errorf("%s has %d bytes, valid: %v", key, len(value), utf8.ValidString(value))
			}
		}
		if got, err := join(meta, tags); got != valid || (err == nil) != (valid != "") {
			t.Errorf("%q came back as %q, %v", valid, got, err)
		}
		service := &api.AgentService{Meta: map[string]string{pathKey: arith.path, partKey + "0": text, partKey + "1": second}, Tags: []string{tag}}
		if in, mine, err := arith.instance(service); mine && err == nil && in.Validate() != nil {
			t.Errorf("%+v is not valid", in)
		}
	})
}
