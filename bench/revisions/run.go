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

// Settings are what Run runs.
type Settings struct {
	Base     string   // a revision; the other side is the working tree
	Packages []string // folders of the root module
	Bench    string   // pattern of benchmarks
	Skip     string   // pattern of benchmarks that are left out
	Count    int      // runs of each benchmark at each revision
	Time     string   // of each run, as go test -benchtime takes it
	Budgets  string   // pattern of the tests that hold allocation budgets; they run in the working tree
	Out      string   // folder for the outputs
}

// Files of the two outputs in Settings.Out.
const (
	OldFile = "old.txt"
	NewFile = "new.txt"
)

// side is one of the two revisions.
type side struct {
	name string
	tree string // the source tree
	bins string // folder of the built test binaries
	out  string // file of the output
}

// Run builds the benchmarks at both revisions and runs them in turns, a package
// at a time, so that a machine that becomes slower does so to both runs of a
// pair. It writes
// the outputs to Settings.Out. An allocation test that fails is an error.
func Run(ctx context.Context, s Settings, progress io.Writer) error {
	root, err := moduleFolder(ctx, rootModule)
	if err != nil {
		return err
	}
	return runIn(ctx, root, s, progress)
}

// runIn does so in the repository whose root is named.
func runIn(ctx context.Context, root string, s Settings, progress io.Writer) (err error) {
	if s.Count < 1 {
		return fmt.Errorf("revisions: %d runs of each benchmark; there must be at least one", s.Count)
	}
	for _, pkg := range s.Packages {
		if _, err := os.Stat(filepath.Join(root, pkg)); err != nil {
			return fmt.Errorf("revisions: no such package: %w", err)
		}
	}
	temp, err := os.MkdirTemp("", "bench-revisions-")
	if err != nil {
		return fmt.Errorf("revisions: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	older := side{"base", filepath.Join(temp, "tree"), filepath.Join(temp, "old"), filepath.Join(s.Out, OldFile)}
	newer := side{"now", root, filepath.Join(temp, "new"), filepath.Join(s.Out, NewFile)}
	if err := addWorktree(ctx, root, older.tree, s.Base); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeWorktree(ctx, root, older.tree)) }()
	for _, v := range []side{older, newer} {
		fmt.Fprintf(progress, "building the benchmarks, %s\n", v.name)
		if err := v.build(ctx, s.Packages); err != nil {
			return err
		}
		if err := os.WriteFile(v.out, nil, 0o644); err != nil {
			return fmt.Errorf("revisions: %w", err)
		}
	}
	if err := newer.testBudgets(ctx, s); err != nil {
		return err
	}
	return takeTurns(ctx, s, older, newer, progress)
}

// takeTurns runs each package's benchmarks at one revision and then at the
// other; who begins changes from round to round.
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

// binary is where a package's test binary lies, if the package has one.
func (v side) binary(pkg string) (path string, built bool) {
	path = filepath.Join(v.bins, strings.ReplaceAll(pkg, "/", "-")+".test")
	_, err := os.Stat(path)
	return path, err == nil
}

// build compiles the packages' tests. A package that the older revision does not
// have is left out. Equal sources make equal binaries, wherever they lie.
func (v side) build(ctx context.Context, packages []string) error {
	for _, pkg := range packages {
		if _, err := os.Stat(filepath.Join(v.tree, pkg)); err != nil {
			continue
		}
		path, _ := v.binary(pkg)
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-trimpath", "-o", path, "./"+pkg)
		cmd.Dir = v.tree
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("revisions: building the tests of %s, %s: %w\n%s", pkg, v.name, err, out)
		}
	}
	return nil
}

// testBudgets runs the tests that hold allocation budgets.
func (v side) testBudgets(ctx context.Context, s Settings) error {
	var errs []error
	for _, pkg := range s.Packages {
		if out, err := v.run(ctx, pkg, "-test.run="+s.Budgets); err != nil {
			errs = append(errs, fmt.Errorf("revisions: an allocation budget of %s: %w\n%s", pkg, err, out))
		}
	}
	return errors.Join(errs...)
}

// bench runs a package's benchmarks once and adds to the side's output.
func (v side) bench(ctx context.Context, s Settings, pkg string) error {
	out, err := v.run(ctx, pkg, "-test.run=^$", "-test.benchmem", "-test.bench="+s.Bench, "-test.skip="+s.Skip, "-test.benchtime="+s.Time)
	if err != nil {
		return fmt.Errorf("revisions: benchmarks of %s, %s: %w\n%s", pkg, v.name, err, out)
	}
	file, err := os.OpenFile(v.out, os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("revisions: %w", err)
	}
	_, err = file.Write(out)
	return errors.Join(err, file.Close())
}

// run starts a package's test binary in the package's folder, as go test does,
// and returns what it prints; nothing for a package that was not built.
func (v side) run(ctx context.Context, pkg string, args ...string) ([]byte, error) {
	path, built := v.binary(pkg)
	if !built {
		return nil, nil
	}
	cmd := exec.CommandContext(ctx, path, append(args, "-test.timeout=5m")...)
	cmd.Dir = filepath.Join(v.tree, pkg)
	return cmd.CombinedOutput()
}

// moduleFolder finds a module from wherever in the workspace the bench runs.
func moduleFolder(ctx context.Context, module string) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	dir := string(bytes.TrimSpace(out))
	if err != nil || dir == "" {
		return "", fmt.Errorf("revisions: module %s not found; run inside the repository: %w", module, err)
	}
	return dir, nil
}

// Checkout checks a revision of this repository out into a folder that does not exist yet.
// It returns the repository's root, and leave, which takes the folder away.
func Checkout(ctx context.Context, folder, revision string) (root string, leave func() error, err error) {
	if root, err = moduleFolder(ctx, rootModule); err != nil {
		return "", nil, err
	}
	if err := addWorktree(ctx, root, folder, revision); err != nil {
		return "", nil, err
	}
	return root, func() error { return removeWorktree(ctx, root, folder) }, nil
}

// addWorktree checks the revision out into a folder.
func addWorktree(ctx context.Context, root, folder, revision string) error {
	cmd := exec.CommandContext(ctx, "git", "worktree", "add", "--detach", folder, revision)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("revisions: checking out %q: %w\n%s", revision, err, out)
	}
	return nil
}

// removeWorktree takes the folder away, also after ctx has ended.
func removeWorktree(ctx context.Context, root, folder string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", "worktree", "remove", "--force", folder)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("revisions: removing the worktree %s: %w\n%s", folder, err, out)
	}
	return nil
}

// Benchstat writes benchstat's table of two outputs: medians, with the
// confidence that they differ. The program's version is pinned in bench/tools.
func Benchstat(ctx context.Context, w io.Writer, older, newer string) error {
	bench, err := moduleFolder(ctx, rootModule+"/bench")
	if err != nil {
		return err
	}
	args := []string{"tool", "benchstat"}
	for _, f := range []struct{ name, file string }{{"old", older}, {"new", newer}} {
		path, err := filepath.Abs(f.file)
		if err != nil {
			return fmt.Errorf("revisions: %w", err)
		}
		args = append(args, f.name+"="+path)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(bench, "tools")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("revisions: benchstat: %w\n%s", err, &stderr)
	}
	return nil
}
