package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// nowVersion is what the work tree is compared as. The go command does not list versions
// of this form, so the base is the newest, which gorelease asks for.
const nowVersion = "v0.0.0-20000101000000-000000000000"

// compareAPI prints how the exported API of the core, or of all libraries, differs from
// the previous release's. That the version, if there is one, is too low for the
// differences is an error, and so are incompatible changes from v1 on.
func compareAPI(ctx context.Context, s settings, temp string) error {
	watch := stopwatch(time.Now())
	base, released, err := previous(ctx, s.base)
	if err != nil {
		return err
	}
	baseVersion := "v0.0.1-base"
	if released {
		baseVersion = base
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
	args := []string{"-base=" + baseVersion}
	if released && s.version != "" {
		args = append(args, "-version="+s.version)
	}
	watch.say("comparing the API with %s", base)
	for _, m := range newer {
		if !s.all && m.dir != "." {
			continue
		}
		if !slices.ContainsFunc(older, func(o *goModule) bool { return o.dir == m.dir }) {
			watch.say("%s is new", m.path())
			continue
		}
		report, err := shell{filepath.Join(temp, "now", m.dir), u.env}.run(ctx, s.compare, args...)
		if err != nil && released {
			return fmt.Errorf("%s compared with %s: %w", m.path(), base, err)
		}
		if err != nil {
			report = err.Error()
		}
		watch.say("%s\n%s", m.path(), report)
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
