package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// nowVersion is the version of the work tree. The go command does not list versions of this
// form, so the base is the newest listed version, as gorelease requires.
const nowVersion = "v0.0.0-20000101000000-000000000000"

// compareAPI prints how the exported API of the core, or of all libraries, differs from that of
// the last release. It returns an error if a version is given and too low for the differences,
// and for incompatible changes from v1 on.
func compareAPI(ctx context.Context, s settings, temp string) error {
	base, name, released, err := previous(ctx, s.base)
	if errors.Is(err, errNoBase) {
		sayf("%v", err)
		return nil
	}
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
	c := comparison{u, []string{s.compare, "-base=" + baseVersion}, name, s.version, released}
	if released && s.version != "" {
		c.command = append(c.command, "-version="+s.version)
	}
	sayf("comparing the API with %s", name)
	for _, m := range newer {
		if !slices.ContainsFunc(older, func(o *goModule) bool { return o.dir == m.dir }) {
			sayf("%s is new", m.path())
			continue
		}
		if err := c.compare(ctx, m, filepath.Join(temp, "now", m.dir)); err != nil {
			return err
		}
	}
	return nil
}

// comparison compares modules with the last release or, before the first, with another commit.
type comparison struct {
	user     *user
	command  []string // gorelease
	base     string
	version  string // to be released; may be empty
	released bool   // base is a release; if not, it has no users that a change could break
}

// compare prints how a module in a folder differs from the base.
func (c *comparison) compare(ctx context.Context, m *goModule, dir string) error {
	report, err := shell{dir, c.user.env}.run(ctx, c.command[0], c.command[1:]...)
	if !c.released {
		if err != nil {
			report = err.Error()
		}
		report, _, _ = strings.Cut(report, "# summary") // the summary is about made-up versions
		sayf("%s\n%s", m.path(), cmp.Or(report, "no changes"))
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s compared with %s: %w", m.path(), c.base, err)
	}
	sayf("%s\n%s", m.path(), report)
	if strings.Contains(report, "## incompatible changes") && semver.MajorMinor(c.version) == semver.MajorMinor(c.base) {
		return fmt.Errorf("%s has incompatible changes since %s, so %s is too low: raise the minor version", m.path(), c.base, c.version)
	}
	return nil
}

// publishBoth puts the libraries at base, a revision and its version, and those of the work tree
// into the proxy. It clones them into the folders base and now of temp.
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

// publishLibraries puts the modules that users import, at a revision, into the proxy, and
// returns them.
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
