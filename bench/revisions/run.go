package revisions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const rootModule = "github.com/tandem-rpc/tandem"

// Settings are the parameters of Run.
type Settings struct {
	Base     string   // a revision; the other side is the working tree
	Packages []string // folders of the root module
	Bench    string   // pattern of benchmarks
	Skip     string   // pattern of benchmarks to skip
	Count    int      // runs of each benchmark at each revision
	Time     string   // duration of each run, as go test -benchtime takes it
}

// side is one of the two revisions.
type side struct {
	name    string
	tree    string // the source tree
	bins    string // folder of the built test binaries
	results results
}

// Run builds the benchmarks at both revisions and runs them in turns, a package at a time,
// so that a machine that becomes slower affects both runs of a pair.
func Run(ctx context.Context, s Settings, progress io.Writer) (Comparison, error) {
	root, err := repository(ctx)
	if err != nil {
		return Comparison{}, err
	}
	return runIn(ctx, root, s, progress)
}

// runIn is Run in the repository with this root.
func runIn(ctx context.Context, root string, s Settings, progress io.Writer) (c Comparison, err error) {
	if s.Count < 1 {
		return c, fmt.Errorf("revisions: %d runs of each benchmark; there must be at least one", s.Count)
	}
	for _, pkg := range s.Packages {
		if _, err := os.Stat(filepath.Join(root, pkg)); err != nil {
			return c, fmt.Errorf("revisions: no such package: %w", err)
		}
	}
	temp, err := os.MkdirTemp("", "bench-revisions-")
	if err != nil {
		return c, fmt.Errorf("revisions: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	older := side{"base", filepath.Join(temp, "tree"), filepath.Join(temp, "old"), results{}}
	newer := side{"now", root, filepath.Join(temp, "new"), results{}}
	if err := git(ctx, root, "worktree", "add", "--detach", older.tree, s.Base); err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, removeWorktree(ctx, root, older.tree)) }()
	for _, v := range []side{older, newer} {
		fmt.Fprintf(progress, "building the benchmarks, %s\n", v.name)
		if err := v.build(ctx, s.Packages); err != nil {
			return c, err
		}
	}
	if err := takeTurns(ctx, s, older, newer, progress); err != nil {
		return c, err
	}
	return compare(older.results, newer.results), nil
}

// takeTurns runs each package's benchmarks at one revision and then at the other; the order
// changes from round to round.
func takeTurns(ctx context.Context, s Settings, older, newer side, progress io.Writer) error {
	began := time.Now()
	for round := range s.Count {
		turn := []side{older, newer}
		if round%2 == 1 {
			turn = []side{newer, older}
		}
		for _, pkg := range s.Packages {
			for _, v := range turn {
				if err := v.bench(ctx, s, pkg); err != nil {
					return err
				}
			}
		}
		rest := time.Since(began) * time.Duration(s.Count-round-1) / time.Duration(round+1)
		fmt.Fprintf(progress, "%d/%d, %v left\n", round+1, s.Count, rest.Round(time.Second))
	}
	return nil
}

// binary is the file of a package's test binary.
func (v side) binary(pkg string) string {
	return filepath.Join(v.bins, strings.ReplaceAll(pkg, "/", "-")+".test")
}

// build compiles the packages' tests. A package that the older revision does not have is
// skipped. Equal sources make equal binaries, in any folder.
func (v side) build(ctx context.Context, packages []string) error {
	for _, pkg := range packages {
		if _, err := os.Stat(filepath.Join(v.tree, pkg)); err != nil {
			continue
		}
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-trimpath", "-o", v.binary(pkg), "./"+pkg)
		cmd.Dir = v.tree
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("revisions: building the tests of %s, %s: %w\n%s", pkg, v.name, err, out)
		}
	}
	return nil
}

// bench runs a package's benchmarks once, in the package's folder as go test does,
// and adds what they measure to the results. A package without tests has none.
func (v side) bench(ctx context.Context, s Settings, pkg string) error {
	if _, err := os.Stat(v.binary(pkg)); err != nil {
		return nil //nolint:nilerr // nothing was built
	}
	cmd := exec.CommandContext(ctx, v.binary(pkg), "-test.run=^$", "-test.benchmem", "-test.timeout=5m",
		"-test.bench="+s.Bench, "-test.skip="+s.Skip, "-test.benchtime="+s.Time)
	cmd.Dir = filepath.Join(v.tree, pkg)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("revisions: benchmarks of %s, %s: %w\n%s", pkg, v.name, err, out)
	}
	v.results.add(pkg, string(out))
	return nil
}

// repository finds this repository, from any folder of the workspace.
func repository(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", rootModule).Output()
	dir := string(bytes.TrimSpace(out))
	if err != nil || dir == "" {
		return "", fmt.Errorf("revisions: module %s not found; run inside the repository: %w", rootModule, err)
	}
	return dir, nil
}

// Checkout checks out a revision of this repository into a new folder. It returns the
// repository's root, and remove, which deletes the folder.
func Checkout(ctx context.Context, folder, revision string) (root string, remove func() error, err error) {
	if root, err = repository(ctx); err != nil {
		return "", nil, err
	}
	if err := git(ctx, root, "worktree", "add", "--detach", folder, revision); err != nil {
		return "", nil, err
	}
	return root, func() error { return removeWorktree(ctx, root, folder) }, nil
}

// removeWorktree deletes the folder, also after ctx has ended.
func removeWorktree(ctx context.Context, root, folder string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return git(ctx, root, "worktree", "remove", "--force", folder)
}

// git runs git in a repository.
func git(ctx context.Context, root string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("revisions: git %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return nil
}
