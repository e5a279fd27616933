package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

func parse(t *testing.T, dir, text string) *goModule {
	t.Helper()
	file, err := modfile.Parse(dir+"/go.mod", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &goModule{dir, file}
}

func TestSetVersion(t *testing.T) {
	const replaced = "require " + root + " v0.0.0\n\nreplace " + root + " => ../..\n"
	for _, c := range []struct{ name, dir, text, want, err string }{
		{"a released module", "registry/etcd", replaced, "require " + root + " v1.2.3\n", ""},
		{"one that is not released", "bench", replaced, strings.Replace(replaced, "v0.0.0", "v1.2.3", 1), ""},
		{"a replace of another's module", "registry/etcd", "replace example.com/a => ../a\n", "", "registry/etcd/go.mod: replaces example.com/a"},
		{"a requirement that is not released", "cmd/tandem", "require " + root + "/bench v0.0.0\n", "", "cmd/tandem/go.mod: requires " + root + "/bench"},
	} {
		head := "module " + root + "/" + c.dir + "\n\n"
		m := parse(t, c.dir, head+c.text)
		err := m.setVersion("v1.2.3")
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want %q in it", c.name, err, c.err)
			}
			continue
		}
		m.file.Cleanup()
		got, formatErr := m.file.Format()
		if err != nil || formatErr != nil || string(got) != head+c.want {
			t.Errorf("%s: %v, %v\n%s", c.name, err, formatErr, got)
		}
	}
}

func TestCheckModules(t *testing.T) {
	all := []*goModule{parse(t, "bench", "module "+root+"/bench"), parse(t, "new", "module "+root+"/new"), parse(t, "registry/etcd", "module example.com/etcd")}
	err := checkModules(all)
	for _, want := range []string{
		"new/go.mod: nothing says whether this module is released",
		"registry/etcd/go.mod: module example.com/etcd, want " + root + "/registry/etcd",
		"e2e/release/modules.go: cmd/tandem has no go.mod",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if err != nil && strings.Contains(err.Error(), "bench") {
		t.Errorf("bench is known: %v", err)
	}
}

func TestModulesComeAfterWhatTheyRequire(t *testing.T) {
	a, b, c := parse(t, "a", "module a\nrequire b v0.0.0"), parse(t, "b", "module b\nrequire c v0.0.0"), parse(t, "c", "module c")
	if got := ordered([]*goModule{a, b, c}); got[0] != c || got[1] != b || got[2] != a {
		t.Errorf("got %s, %s, %s", got[0].dir, got[1].dir, got[2].dir)
	}
}

func TestAddSums(t *testing.T) {
	name := filepath.Join(t.TempDir(), "go.sum")
	if err := os.WriteFile(name, []byte("z v1.0.0 h1:z\na v1.10.0 h1:a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := addSums(name, map[module.Version]string{{Path: "a", Version: "v1.9.0/go.mod"}: "h1:b", {Path: "a", Version: "v1.9.0"}: "h1:c"}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(name)
	if want := "a v1.9.0 h1:c\na v1.9.0/go.mod h1:b\na v1.10.0 h1:a\nz v1.0.0 h1:z\n"; err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}
