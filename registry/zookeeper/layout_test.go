package zookeeper

import (
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
)

const greeter = "org.apache.demo.Greeter"

// provider is a node of a Dubbo 3 provider, as its registry writes it.
const provider = "tri%3A%2F%2F10.0.0.1%3A50051%2Forg.apache.demo.Greeter%3Fanyhost%3Dtrue%26application%3Ddemo%26deprecated%3Dfalse" +
	"%26dubbo%3D2.0.2%26dynamic%3Dtrue%26generic%3Dfalse%26group%3Dblue%26interface%3Dorg.apache.demo.Greeter%26methods%3DSayHello" +
	"%26prefer.serialization%3Dhessian2%2Cfastjson2%26release%3D3.3.6%26side%3Dprovider%26timestamp%3D1700000000123%26version%3D1.0.0%26weight%3D200"

func TestDubboProviderIsRead(t *testing.T) {
	got, err := dubboLayout{greeter}.parse(provider, nil)
	want := tandem.Instance{
		ID:        "tri://10.0.0.1:50051/blue/org.apache.demo.Greeter:1.0.0",
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "10.0.0.1:50051", Protocol: "grpc"}},
		Group:     "blue", Version: "1.0.0", Weight: 200, Started: time.UnixMilli(1700000000123).UTC(),
		Tags: map[string]string{"application": "demo", "prefer.serialization": "hessian2,fastjson2", "release": "3.3.6"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v and %v, want %+v", got, err, want)
	}
}

func TestDubboProviderIsWritten(t *testing.T) {
	in := tandem.Instance{
		ID: "a", Endpoints: []tandem.Endpoint{
			{Transport: "tcp", Address: "10.0.0.1:8972"},
			{Transport: "tcp", Address: "10.0.0.1:50051", Protocol: "grpc"},
		},
		Group: "blue", Version: "1.0.0", Zone: "z1", Weight: 7, Incarnation: "x y",
		Started: time.UnixMilli(1700000000123).UTC(),
		Tags:    map[string]string{"application": "demo", "interface": "forged", "dubbo.tag": "gray & green"},
	}
	name, data, err := dubboLayout{greeter}.node(in)
	if err != nil || len(data) > 0 || strings.ContainsAny(name, "/? ") {
		t.Fatalf("got %q, %q and %v", name, data, err)
	}
	text, _ := url.QueryUnescape(name)
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "tri" || u.Host != "10.0.0.1:50051" || u.Path != "/"+greeter {
		t.Fatalf("%s: %v", text, err)
	}
	for key, want := range map[string]string{
		"interface": greeter, "group": "blue", "version": "1.0.0", "weight": "7", "timestamp": "1700000000123",
		"side": "provider", "category": "providers", "dynamic": "true", "application": "demo", "dubbo.tag": "gray & green",
	} {
		if got := u.Query().Get(key); got != want {
			t.Errorf("%s=%q, want %q", key, got, want)
		}
	}
	got, err := dubboLayout{greeter}.parse(name, nil)
	if err != nil || got.Incarnation != in.Incarnation || got.Zone != in.Zone || !got.Started.Equal(in.Started) || got.Tags["dubbo.tag"] != "gray & green" {
		t.Errorf("it is read as %+v, %v", got, err)
	}
	in.Endpoints = in.Endpoints[:1]
	if name, _, err := (dubboLayout{greeter}).node(in); err == nil {
		t.Errorf("an instance that doesn't speak gRPC becomes %s", name)
	}
}

func TestDubboRefuses(t *testing.T) {
	for _, text := range []string{
		"", "%zz", "tri://", "tri://10.0.0.1/" + greeter, "tri://:1/" + greeter,
		"dubbo://10.0.0.1:20880/" + greeter,
		"tri://10.0.0.1:1/x?interface=x",
		"tri://10.0.0.1:1/x?enabled=false",
		"tri://10.0.0.1:1/x?category=routers",
		"tri://10.0.0.1:1/x?weight=2000000000",
		"tri://10.0.0.1:1/x?weight=0",
		"tri://10.0.0.1:1/x?timestamp=yesterday",
		"tri://10.0.0.1:1/x?group=" + strings.Repeat("g", 70_000),
	} {
		if in, err := (dubboLayout{greeter}).parse(url.QueryEscape(text), nil); err == nil {
			t.Errorf("%.60q is read as %+v", text, in)
		}
	}
}

func TestRpcxServer(t *testing.T) {
	const name, data = "tcp@127.0.0.1:8972", "weight=7&group=test&state=active&latitude=-33.5&longitude=151.25&calls=12.30&connections=0.02"
	want := tandem.Instance{
		ID:        "tcp://127.0.0.1:8972",
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:8972", Protocol: "rpcx"}},
		Group:     "test", Weight: 7, Position: &tandem.Position{Latitude: -33.5, Longitude: 151.25},
		Tags: map[string]string{"connections": "0.02"},
	}
	got, err := rpcxLayout{}.parse(name, []byte(data))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v and %v, want %+v", got, err, want)
	}
	want.Load = &tandem.Load{Rate: 12.3}
	node, meta, err := rpcxLayout{}.node(want)
	v, _ := url.ParseQuery(data)
	if err != nil || node != name || string(meta) != v.Encode() {
		t.Errorf("it is written as %s %s, %v; want %s %s", node, meta, err, name, v.Encode())
	}
	for _, c := range [][2]string{
		{"127.0.0.1:8972", ""}, {"@127.0.0.1:8972", ""}, {"tcp@", ""}, {name, "state=inactive"}, {name, "weight=1000000000"},
		{name, "%zz"}, {name, "latitude=91&longitude=0"}, {name, "latitude=x&longitude=0"}, {name, strings.Repeat("a", 70_000)},
	} {
		if in, err := (rpcxLayout{}).parse(c[0], []byte(c[1])); err == nil {
			t.Errorf("%s %.30q is read as %+v", c[0], c[1], in)
		}
	}
	for _, ep := range []tandem.Endpoint{{Transport: "tcp", Address: "a:1"}, {Transport: "unix", Address: "/run/a.sock", Protocol: "rpcx"}} {
		if node, _, err := (rpcxLayout{}).node(tandem.Instance{ID: "a", Endpoints: []tandem.Endpoint{ep}}); err == nil {
			t.Errorf("%s becomes the node %s", ep, node)
		}
	}
}

func TestTandemLayout(t *testing.T) {
	in := tandem.Instance{ID: "tcp://[::1]:80/ä", Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "[::1]:80"}}}
	name, data, err := tandemLayout{}.node(in)
	if err != nil || name != "tcp:%2f%2f[::1]:80%2f%c3%a4" {
		t.Fatalf("got %s, %v", name, err)
	}
	if got, err := (tandemLayout{}).parse(name, data); err != nil || !reflect.DeepEqual(got, in) {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := (tandemLayout{}).parse("other", data); err == nil {
		t.Errorf("under another name it is read as %+v", got)
	}
	for id, want := range map[string]string{".": "%2e", "..": "%2e.", "a.b": "a.b", "%": "%25", "\n": "%0a", "a/b": "a%2fb"} {
		if got := escape(id); got != want || checkPath("/d/"+got) != nil {
			t.Errorf("escape(%q) = %q, want %q, which ZooKeeper must take", id, got, want)
		}
	}
}

// FuzzParse reads nodes of each layout: parse returns a valid instance or an error.
func FuzzParse(f *testing.F) {
	f.Add(provider, []byte(""))
	f.Add("tcp@127.0.0.1:8972", []byte("weight=7&group=test"))
	f.Add("a", []byte(`{"id":"a","endpoints":[{"transport":"tcp","address":"a:1"}]}`))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		for _, l := range []layout{tandemLayout{}, dubboLayout{greeter}, rpcxLayout{}} {
			in, err := l.parse(name, data)
			if err != nil {
				continue
			}
			if err := in.Validate(); err != nil {
				t.Errorf("%T: %v", l, err)
			}
			again, data, err := l.node(in)
			if err != nil {
				continue // the layout can't write it, such as an rpcx server's unix socket
			}
			if back, err := l.parse(again, data); err != nil || back.ID != in.ID || back.Weight != in.Weight {
				t.Errorf("%T: %+v is written as %s, which is read as %+v, %v", l, in, again, back, err)
			}
		}
	})
}
