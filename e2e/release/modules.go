package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

const root = "github.com/tandem-rpc/tandem"

// released returns the folders of the modules that users import or install.
func released() []string {
	return []string{
		".",
		"cmd/tandem",
		"compat/rpcx/registries",
		"console",
		"grpcbridge",
		"identity",
		"policy/yaml",
		"protocol/rest",
		"protocol/thrift",
		"registry/consul",
		"registry/etcd",
		"registry/kubernetes",
		"registry/mdns",
		"registry/nacos",
		"registry/redis",
		"registry/zookeeper",
		"stores",
		"telemetry",
		"transport/kcp",
		"transport/nbio",
		"transport/quic",
	}
}

// kept returns the folders of modules that are not released, as they measure, test or
// demonstrate the others.
func kept() []string {
	return []string{"bench", "e2e", "examples"}
}

// goModule is a module of the repository.
type goModule struct {
	dir  string // in the repository, with slashes; "." for the root
	file *modfile.File
}

func (m *goModule) path() string { return m.file.Module.Mod.Path }

func (m *goModule) released() bool { return slices.Contains(released(), m.dir) }

// tag returns the name of the git tag by which the go command finds a version of the module.
func (m *goModule) tag(version string) string { return path.Join(m.dir, version) }

// readModules reads every go.mod that git tracks in the tree. Modules come after those that they
// require.
func readModules(ctx context.Context, tree string) (all []*goModule, err error) {
	names, err := shell{dir: tree}.run(ctx, "git", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		return nil, err
	}
	for _, name := range lines(names) {
		text, err := os.ReadFile(filepath.Join(tree, name))
		if err != nil {
			return nil, err
		}
		file, err := modfile.Parse(name, text, nil)
		if err != nil {
			return nil, err
		}
		all = append(all, &goModule{path.Dir(name), file})
	}
	return ordered(all), nil
}

// checkModules returns an error for each module that is in neither list or has the wrong
// path, and for each folder of the list that has none.
func checkModules(all []*goModule) error {
	var errs []error
	known := map[string]bool{}
	for _, m := range all {
		known[m.dir] = true
		if want := path.Join(root, m.dir); m.path() != want {
			errs = append(errs, fmt.Errorf("%s/go.mod: module %s, want %s", m.dir, m.path(), want))
		}
		if !m.released() && !isKept(m.dir) {
			errs = append(errs, fmt.Errorf("%s/go.mod: nothing says whether this module is released: name its folder in e2e/release/modules.go", m.dir))
		}
	}
	for _, dir := range released() {
		if !known[dir] {
			errs = append(errs, fmt.Errorf("e2e/release/modules.go: %s has no go.mod", dir))
		}
	}
	return errors.Join(errs...)
}

func isKept(dir string) bool {
	return slices.ContainsFunc(kept(), func(k string) bool { return dir == k || strings.HasPrefix(dir, k+"/") })
}

// ordered sorts modules so that each comes after those of this repository that it requires.
func ordered(all []*goModule) (sorted []*goModule) {
	var add func(m *goModule)
	add = func(m *goModule) {
		if slices.Contains(sorted, m) {
			return
		}
		for _, other := range all {
			if other != m && m.requires(other.path()) {
				add(other)
			}
		}
		sorted = append(sorted, m)
	}
	for _, m := range all {
		add(m)
	}
	return sorted
}

func (m *goModule) requires(name string) bool {
	return slices.ContainsFunc(m.file.Require, func(r *modfile.Require) bool { return r.Mod.Path == name })
}

// own reports whether a module is one of this repository.
func own(name string) bool { return name == root || strings.HasPrefix(name, root+"/") }

// setVersion makes the module require version of every module of this repository that it uses
// and, if it is released itself, removes its replaces by folders.
func (m *goModule) setVersion(version string) error {
	for _, r := range m.file.Require {
		if !own(r.Mod.Path) {
			continue
		}
		if dir := strings.TrimPrefix(strings.TrimPrefix(r.Mod.Path, root), "/"); m.released() && !slices.Contains(released(), path.Clean(dir)) {
			return fmt.Errorf("%s/go.mod: requires %s, which is not released: no user could build it", m.dir, r.Mod.Path)
		}
		if err := m.file.AddRequire(r.Mod.Path, version); err != nil {
			return err
		}
	}
	if !m.released() {
		return nil
	}
	return m.dropReplaces()
}

// dropReplaces removes the replaces of modules of this repository. Any other replace is an
// error: the go command applies it only in this repository, so users would get another module.
func (m *goModule) dropReplaces() error {
	for _, r := range slices.Clone(m.file.Replace) {
		if !own(r.Old.Path) {
			return fmt.Errorf("%s/go.mod: replaces %s, which has no effect for users: require a version that needs no replace", m.dir, r.Old.Path)
		}
		if err := m.file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
			return err
		}
	}
	return nil
}

// write writes go.mod, and go.sum with the sums of the modules of this repository that it
// requires.
func (m *goModule) write(tree, version string, sums map[module.Version]string) error {
	m.file.Cleanup()
	text, err := m.file.Format()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(tree, m.dir, "go.mod"), text, 0o644); err != nil {
		return err
	}
	if !m.released() {
		return nil // its replaces stay, so it needs no sums
	}
	want := map[module.Version]string{}
	for _, r := range m.file.Require {
		for _, v := range []string{version, version + "/go.mod"} {
			key := module.Version{Path: r.Mod.Path, Version: v}
			if sum, ok := sums[key]; ok {
				want[key] = sum
			}
		}
	}
	return addSums(filepath.Join(tree, m.dir, "go.sum"), want)
}

// addSums adds lines to a go.sum, sorted as the go command sorts them.
func addSums(name string, sums map[module.Version]string) error {
	if len(sums) == 0 {
		return nil
	}
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	all := map[module.Version]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 { //nolint:mnd // path, version, sum
			all[module.Version{Path: f[0], Version: f[1]}] = f[2]
		}
	}
	maps.Copy(all, sums)
	keys := slices.Collect(maps.Keys(all))
	module.Sort(keys)
	var out strings.Builder
	for _, key := range keys {
		fmt.Fprintf(&out, "%s %s %s\n", key.Path, key.Version, all[key])
	}
	return os.WriteFile(name, []byte(out.String()), 0o644)
}
