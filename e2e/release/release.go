package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// checkedVersion is the version that check releases in its temporary folder.
const checkedVersion = "v0.0.1-check"

// checkRelease releases the work tree in a temporary folder.
func checkRelease(ctx context.Context, s settings, temp string) error {
	s.version, s.dist = checkedVersion, filepath.Join(temp, "dist")
	commit, err := snapshot(ctx, temp)
	if err != nil {
		return err
	}
	_, err = build(ctx, s, commit, temp)
	return err
}

// makeRelease releases HEAD, builds for every system, and then adds the release's tags to
// this repository. It pushes nothing.
func makeRelease(ctx context.Context, s settings, temp string) error {
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	if err := mayRelease(ctx, s.version, string(changelog)); err != nil {
		return err
	}
	if s.dist, err = filepath.Abs(filepath.Join(s.dist, s.version)); err != nil {
		return err
	}
	s.all = true
	if err := compareAPI(ctx, s, filepath.Join(temp, "api")); err != nil {
		return err
	}
	tags, err := build(ctx, s, "HEAD", temp)
	if err != nil {
		return err
	}
	fetch := []string{"fetch", "--quiet", "--no-tags", filepath.Join(temp, "tree")}
	for _, tag := range tags {
		fetch = append(fetch, "refs/tags/"+tag+":refs/tags/"+tag)
	}
	if _, err := (shell{}).run(ctx, "git", fetch...); err != nil {
		return err
	}
	sayf("tags are set; publish them all at once: git push --atomic origin $(git tag --list %s '*/%s')", s.version, s.version)
	return nil
}

// build makes the release of a commit in a clone in temp, uses it as users would, and
// writes its files to s.dist. It returns the tags.
func build(ctx context.Context, s settings, commit, temp string) (tags []string, err error) {
	head, err := shell{}.run(ctx, "git", "rev-parse", commit)
	if err != nil {
		return nil, err
	}
	tree, proxy := filepath.Join(temp, "tree"), filepath.Join(temp, "proxy")
	if err := clone(ctx, head, tree); err != nil {
		return nil, err
	}
	modules, err := readModules(ctx, tree)
	if err != nil {
		return nil, err
	}
	if err := checkModules(modules); err != nil {
		return nil, err
	}
	if err := publish(ctx, tree, s.version, proxy, modules); err != nil {
		return nil, err
	}
	for _, m := range modules {
		if m.released() {
			tags = append(tags, m.tag(s.version))
		}
	}
	commit, err = shell{dir: tree}.run(ctx, "git", "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	sayf("%d modules of %.12s released as %s, in commit %.12s", len(tags), head, s.version, commit)
	u, err := newUser(ctx, filepath.Join(temp, "user"), s.version, proxy)
	if err != nil {
		return nil, err
	}
	if err := use(ctx, u, tree, modules); err != nil {
		return nil, err
	}
	other, err := newUser(ctx, filepath.Join(temp, "other"), s.version, proxy)
	if err != nil {
		return nil, err
	}
	return tags, distribute(ctx, s, [2]*user{u, other}, tree)
}

// use uses a release as users do: it runs the README's program, imports every module, and
// builds the examples.
func use(ctx context.Context, u *user, tree string, modules []*goModule) error {
	readme, err := os.ReadFile(filepath.Join(tree, "README.md"))
	if err != nil {
		return err
	}
	if err := u.runHello(ctx, string(readme)); err != nil {
		return err
	}
	sayf("README's program runs with the core from a module proxy")
	if err := u.useAll(ctx, modules); err != nil {
		return err
	}
	sayf("registry/etcd runs, and every package of every module finds what it imports")
	if err := u.checkTidy(ctx, tree, modules); err != nil {
		return err
	}
	sayf("go.mod and go.sum of every released module are tidy")
	if err := u.buildWorkspace(ctx, tree); err != nil {
		return err
	}
	sayf("the workspace of the release commit uses its own folders")
	if err := u.buildExamples(ctx, tree, modules); err != nil {
		return err
	}
	sayf("examples build with the released modules")
	return nil
}

// distribute builds the files that users download.
func distribute(ctx context.Context, s settings, users [2]*user, tree string) error {
	if err := os.MkdirAll(s.dist, 0o755); err != nil {
		return err
	}
	names, err := buildBinaries(ctx, users[0], users[1], s.dist, s.all)
	if err != nil {
		return err
	}
	if err := checkVersion(ctx, users[0], s.dist, names); err != nil {
		return err
	}
	sayf("go install works; two builds are equal: %v", names)
	sboms, err := writeSBOMs(ctx, s.sbom, s.dist, names)
	if err != nil {
		return err
	}
	names = slices.Concat(names, sboms)
	if linux := "tandem-" + s.version + "-linux-amd64"; slices.Contains(names, linux) {
		image, err := buildImage(ctx, tree, filepath.Join(users[0].temp, "image"), s.dist, linux)
		switch {
		case errors.Is(err, errNoBuilder):
			sayf("no image is built: %v", err)
		case err != nil:
			return err
		default:
			names = append(names, image)
			sayf("the image is built: %s", image)
		}
	}
	if err := writeSums(s.dist, names); err != nil {
		return err
	}
	sayf("SBOM and SHA256SUMS are written to %s", s.dist)
	return nil
}
