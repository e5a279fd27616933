package contexts

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/registry"
)

func TestSaveAndLoad(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", dir)
	name, err := Path()
	if err != nil || name != filepath.Join(dir, "tandem", "contexts.yaml") {
		t.Fatalf("got %s, %v", name, err)
	}
	f, err := Load(name)
	if err != nil || len(f.Contexts) != 0 {
		t.Fatalf("an empty file: %+v, %v", f, err)
	}
	f.Current = "prod"
	f.Contexts["prod"] = Context{Target: "etcd://h:2379/shop", TLS: &TLS{CA: "/ca.pem"}, TokenCommand: []string{"pass", "tandem"}}
	f.Contexts["dev"] = Context{Target: "tcp://127.0.0.1:8972", TLS: &TLS{}}
	for range 2 {
		if err := f.Save(name); err != nil {
			t.Fatal(err)
		}
	}
	again, err := Load(name)
	if err != nil || !reflect.DeepEqual(again, f) {
		t.Errorf("got %+v, %v", again, err)
	}
	if info, err := os.Stat(name); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(name, []byte("contexts: {a: {token: secret}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(name); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("a secret in the file: %v", err)
	}
}

func TestFind(t *testing.T) {
	f := &File{Contexts: map[string]Context{"prod": {Target: "etcd://h:2379/shop?lease=10s"}, "one": {Target: "tcp://h:1"}}}
	for _, c := range []struct{ current, text, want, err string }{
		{"", "@prod", "etcd://h:2379/shop?lease=10s", ""},
		{"", "@prod/Cart", "etcd://h:2379/shop/Cart?lease=10s", ""},
		{"prod", "@", "etcd://h:2379/shop?lease=10s", ""},
		{"prod", "@/Cart/v1", "etcd://h:2379/shop/Cart/v1?lease=10s", ""},
		{"", "@", "", "there is no current context"},
		{"", "@test", "", `no context "test"`},
	} {
		f.Current = c.current
		got, err := f.Find(c.text)
		if got.Target != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: got %s, %v; want %s, %s", c.text, got.Target, err, c.want, c.err)
		}
	}
}

func TestCheckName(t *testing.T) {
	for name, good := range map[string]bool{"prod": true, "eu.prod-1": true, "": false, "a/b": false, "@a": false, "a b": false} {
		if err := CheckName(name); (err == nil) != good {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		c    Context
		want string
		good bool
	}{
		{Context{}, "", true},
		{Context{TokenFile: file}, "abc", true},
		{Context{TokenFile: empty}, "", false},
		{Context{TokenFile: file + "x"}, "", false},
		{Context{TokenCommand: []string{"go", "env", "GOOS"}}, runtime.GOOS, true},
		{Context{TokenCommand: []string{"no-such-command"}}, "", false},
	} {
		if got, err := c.c.Token(t.Context()); got != c.want || (err == nil) != c.good {
			t.Errorf("%+v: got %q, %v", c.c, got, err)
		}
	}
}

func TestConfig(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.pem")
	if err := os.WriteFile(bad, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := (*TLS)(nil).Config(); c != nil || err != nil {
		t.Errorf("no TLS: %v, %v", c, err)
	}
	if c, err := (&TLS{Name: "shop"}).Config(); err != nil || c.ServerName != "shop" || c.RootCAs != nil {
		t.Errorf("the system's authorities: %v, %v", c, err)
	}
	for _, tls := range []TLS{{CA: bad}, {CA: bad + "x"}, {Cert: bad}, {Key: bad}, {Cert: bad, Key: bad}} {
		if _, err := tls.Config(); err == nil {
			t.Errorf("%+v: no error", tls)
		}
	}
}

func TestRegistryOf(t *testing.T) {
	for target, want := range map[string]string{
		"etcd://h1:2379,h2:2379/shop":          "etcd://h1:2379,h2:2379",
		"etcd://127.0.0.1:2379/shop":           "etcd://localhost:2379",
		"etcd://localhost:2379":                "etcd://localhost:2379",
		"redis://[::1]:6379,127.0.0.2:6380/db": "redis://localhost:6379,127.0.0.2:6380",
	} {
		parsed, err := registry.ParseTarget(target)
		if err != nil {
			t.Fatal(err)
		}
		if got := RegistryOf(parsed); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}
