package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// The versions that the two sides of a comparison are given.
const (
	baseVersion = "v0.0.1-base"
	nowVersion  = "v0.0.1-now"
)

// compareAPI prints how the exported API of each library differs from the previous
// release's. What breaks users is an error if there has been a release.
func compareAPI(ctx context.Context, s settings, temp string) error {
	watch := stopwatch(time.Now())
	base, released, err := previous(ctx, s.base)
	if err != nil {
		return err
	}
	now, err := snapshot(ctx, temp)
	if err != nil {
		return err
	}
	proxy := filepath.Join(temp, "proxy")
	older, err := publishLibraries(ctx, base, baseVersion, filepath.Join(temp, "base"), proxy)
	if err != nil {
		return err
	}
	newer, err := publishLibraries(ctx, now, nowVersion, filepath.Join(temp, "now"), proxy)
	if err != nil {
		return err
	}
	u, err := newUser(ctx, filepath.Join(temp, "user"), nowVersion, proxy)
	if err != nil {
		return err
	}
	watch.say("comparing the API with %s", base)
	for _, m := range newer {
		if !slices.ContainsFunc(older, func(o *goModule) bool { return o.dir == m.dir }) {
			watch.say("%s is new", m.path())
			continue
		}
		report, err := shell{filepath.Join(temp, "now", m.dir), u.env}.run(ctx, s.compare, "-base="+baseVersion)
		if err != nil {
			report = err.Error()
		}
		watch.say("%s\n%s", m.path(), report)
		if err != nil && released {
			return fmt.Errorf("%s breaks users of %s: see above", m.path(), base)
		}
	}
	return nil
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
