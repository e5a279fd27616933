package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// nowVersion is the version that the work tree is given. The go command does not list
// versions of this form, so the base is the newest one, which gorelease demands.
const nowVersion = "v0.0.0-20000101000000-000000000000"

// compareAPI prints how the exported API of the core, or of all libraries, differs from
// the last release's. It returns an error if the version, where one is given, is too low for
// the differences, and for incompatible changes from v1 on.
func compareAPI(ctx context.Context, s settings, temp string) error {
	base, name, released, err := previous(ctx, s.base)
	if err != nil {
		return err
	}
	baseVersion := "v0.0.1-base"
	if released {
		baseVersion = name
	}
	proxy := filepath.Join(temp, "proxy")
	older, newer, err := publishBoth(ctx, [2]string{base, baseVersion}, temp, proxy)
	if err != nil {
		return err
	}
	if !s.all {
		newer = slices.DeleteFunc(newer, func(m *goModule) bool { return m.dir != "." })
	}
	u, err := newUser(ctx, filepath.Join(temp, "user"), nowVersion, proxy)
	if err != nil {
		return err
	}
	command := []string{s.compare, "-base=" + baseVersion}
	if released && s.version != "" {
		command = append(command, "-version="+s.version)
	}
	sayf("comparing the API with %s", name)
	for _, m := range newer {
		if !slices.ContainsFunc(older, func(o *goModule) bool { return o.dir == m.dir }) {
			sayf("%s is new", m.path())
			continue
		}
		report, err := u.report(ctx, filepath.Join(temp, "now", m.dir), command)
		if err != nil && released {
			return fmt.Errorf("%s compared with %s: %w", m.path(), name, err)
		}
		if !released { // the versions are made up
			report, _, _ = strings.Cut(report, "# summary")
		}
		sayf("%s\n%s", m.path(), cmp.Or(report, "no changes"))
		if breaks := strings.Contains(report, "## incompatible changes"); breaks && released && semver.MajorMinor(s.version) == semver.MajorMinor(name) {
			return fmt.Errorf("%s has incompatible changes since %s, so %s is too low: raise the minor version", m.path(), name, s.version)
		}
	}
	return nil
}

// report runs gorelease in a folder. The report is there even if there is an error.
func (u *user) report(ctx context.Context, dir string, command []string) (string, error) {
	report, err := shell{dir, u.env}.run(ctx, command[0], command[1:]...)
	if err != nil {
		report = err.Error()
	}
	return report, err
}

// publishBoth puts the libraries as they are at base, a revision and its version, and in
// the work tree into the proxy. Clones are in the folders base and now of temp.
func publishBoth(ctx context.Context, base [2]string, temp, proxy string) (older, newer []*goModule, err error) {
	now, err := snapshot(ctx, temp)
	if err != nil {
		return nil, nil, err
	}
	if older, err = publishLibraries(ctx, base[0], base[1], filepath.Join(temp, "base"), proxy); err != nil {
		return nil, nil, err
	}
	newer, err = publishLibraries(ctx, now, nowVersion, filepath.Join(temp, "now"), proxy)
	return older, newer, err
}

// publishLibraries puts the modules that users import, as they are at a revision, into the
// proxy, and returns them.
func publishLibraries(ctx context.Context, revision, version, tree, proxy string) ([]*goModule, error) {
	if err := clone(ctx, revision, tree); err != nil {
		return nil, err
	}
	modules, err := readModules(ctx, tree)
	if err != nil {
		return nil, err
	}
	libraries := slices.DeleteFunc(modules, func(m *goModule) bool { return !m.released() || m.dir == "cmd/tandem" })
	return libraries, publish(ctx, tree, version, proxy, libraries)
}
