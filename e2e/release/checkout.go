package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

// identity returns the environment that makes the release commit depend only on HEAD and the
// version: a release that is made again has the same hash.
func identity(date string) []string {
	return []string{
		"GIT_AUTHOR_NAME=tandem release", "GIT_AUTHOR_EMAIL=release@tandem.invalid", "GIT_AUTHOR_DATE=" + date,
		"GIT_COMMITTER_NAME=tandem release", "GIT_COMMITTER_EMAIL=release@tandem.invalid", "GIT_COMMITTER_DATE=" + date,
	}
}

// clone checks the commit out in a folder with a new repository, which uses the objects of this
// one and has none of its tags. Unlike git clone, it needs neither a branch with the commit nor
// the commit's history.
func clone(ctx context.Context, commit, dir string) error {
	objects, err := shell{}.run(ctx, "git", "rev-parse", "--path-format=absolute", "--git-path", "objects")
	if err != nil {
		return err
	}
	if _, err := (shell{}).run(ctx, "git", "init", "--quiet", dir); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, ".git", "objects", "info", "alternates"), []byte(objects+"\n"), 0o644); err != nil {
		return err
	}
	_, err = shell{dir: dir}.run(ctx, "git", "checkout", "--quiet", "--detach", commit)
	return err
}

// snapshot makes a commit of the work tree, including new files. It changes neither the work
// tree nor the index nor a branch.
func snapshot(ctx context.Context, temp string) (string, error) {
	if err := os.MkdirAll(temp, 0o755); err != nil {
		return "", err
	}
	git := shell{env: append(identity("2000-01-01T00:00:00Z"), "GIT_INDEX_FILE="+filepath.Join(temp, "index"))}
	if _, err := git.run(ctx, "git", "read-tree", "HEAD"); err != nil {
		return "", err
	}
	if _, err := git.run(ctx, "git", "add", "--all"); err != nil {
		return "", err
	}
	tree, err := git.run(ctx, "git", "write-tree")
	if err != nil {
		return "", err
	}
	return git.run(ctx, "git", "commit-tree", tree, "-p", "HEAD", "-m", "The work tree")
}

// mayRelease returns an error if the version or the work tree is not fit for a release.
func mayRelease(ctx context.Context, version, changelog string) error {
	if semver.Canonical(version) != version || version == "" || semver.Build(version) != "" {
		return fmt.Errorf("version %q: want one such as v0.1.0: give it as VERSION", version)
	}
	if major := semver.Major(version); major != "v0" && major != "v1" {
		return fmt.Errorf("version %s: the module paths end in no /%s, so the go command would refuse it", version, major)
	}
	if heading := "## " + strings.TrimPrefix(version, "v"); !strings.Contains(changelog, "\n"+heading+"\n") && !strings.Contains(changelog, "\n"+heading+" ") {
		return fmt.Errorf("CHANGELOG.md: no heading %q: rename Unreleased, and commit that", heading)
	}
	changed, err := shell{}.run(ctx, "git", "status", "--porcelain")
	if err == nil && changed != "" {
		err = fmt.Errorf("the work tree differs from HEAD, which is what is released: commit or stash\n%s", changed)
	}
	tags, tagsErr := shell{}.run(ctx, "git", "tag", "--list", version, "*/"+version)
	if tagsErr == nil && tags != "" {
		tagsErr = fmt.Errorf("version %s is released already: there is the tag %s", version, lines(tags)[0])
	}
	return errors.Join(err, tagsErr)
}

// errNoBase is returned if there is no release yet, and this clone has only one commit.
var errNoBase = errors.New("nothing to compare with: there is no release yet, and this clone has no commit before HEAD")

// previous returns the hash of the commit to compare with, and its name: base or, if that is
// empty, the last release, or the commit before HEAD if there is none. released reports whether
// it is the last release.
func previous(ctx context.Context, base string) (hash, name string, released bool, err error) {
	if name = base; name == "" {
		if name, err = lastRelease(ctx); err != nil {
			return "", "", false, err
		}
		released = name != ""
	}
	if name == "" {
		name = "HEAD~1"
		if hash, err = (shell{}).run(ctx, "git", "rev-parse", "--quiet", "--verify", name+"^{commit}"); err != nil {
			return "", name, false, errNoBase
		}
		return hash, name, false, nil
	}
	hash, err = shell{}.run(ctx, "git", "rev-parse", "--verify", name+"^{commit}")
	if err != nil {
		err = fmt.Errorf("%s, to compare with, is not in this clone: fetch its history and tags: %w", name, err)
	}
	return hash, name, released, err
}

// lastRelease returns the tag of the highest version, "" if there is none.
func lastRelease(ctx context.Context) (string, error) {
	tags, err := shell{}.run(ctx, "git", "tag", "--list", "v*", "--sort=-version:refname")
	for _, tag := range lines(tags) {
		if semver.IsValid(tag) && semver.Prerelease(tag) == "" {
			return tag, nil
		}
	}
	return "", err
}
