package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const benchModule = "github.com/tandem-rpc/tandem/bench"

// peers is a folder of built peers.
type peers struct{ dir string }

func (p peers) path(system string) string { return filepath.Join(p.dir, system) }

// remove deletes the folder. It lies among temporary files; a failure is not
// worth a word.
func (p peers) remove() { _ = os.RemoveAll(p.dir) }

// Systems returns the names of all peers in the source tree.
func Systems(ctx context.Context) ([]string, error) {
	source, err := peerSource(ctx)
	if err != nil {
		return nil, err
	}
	mains, err := filepath.Glob(filepath.Join(source, "*", "main.go"))
	if err != nil {
		return nil, fmt.Errorf("harness: %w", err)
	}
	var names []string
	for _, m := range mains {
		names = append(names, filepath.Base(filepath.Dir(m)))
	}
	return names, nil
}

// build compiles the systems' peers, each in its own folder, so that one with
// a go.mod of its own is built with that.
func build(ctx context.Context, systems []string) (peers, error) {
	known, err := Systems(ctx)
	if err != nil {
		return peers{}, err
	}
	source, err := peerSource(ctx)
	if err != nil {
		return peers{}, err
	}
	dir, err := os.MkdirTemp("", "bench-peers-")
	if err != nil {
		return peers{}, fmt.Errorf("harness: %w", err)
	}
	p := peers{dir}
	for _, name := range systems {
		folder, _, _ := strings.Cut(name, "+") // what follows are options; see load.Named
		if !slices.Contains(known, folder) {
			p.remove()
			return peers{}, fmt.Errorf("harness: no system %q; there are %s", name, strings.Join(known, ", "))
		}
		if err := p.build(ctx, source, folder, name); err != nil {
			p.remove()
			return peers{}, err
		}
	}
	return p, nil
}

// build compiles the peer in the folder, unless that has been done for another
// system of the same peer, and gives it the system's name.
func (p peers) build(ctx context.Context, source, folder, name string) error {
	first := filepath.Join(p.dir, "peer."+folder)
	if _, err := os.Stat(first); err != nil {
		if err := goBuild(ctx, filepath.Join(source, folder), first); err != nil {
			return err
		}
	}
	if err := os.Link(first, p.path(name)); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("harness: naming the peer of %s: %w", name, err)
	}
	return nil
}

// peerSource finds bench/peers from wherever in the workspace the bench runs.
func peerSource(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", benchModule).Output()
	dir := string(bytes.TrimSpace(out))
	if err != nil || dir == "" {
		return "", fmt.Errorf("harness: module %s not found; run inside the repository: %w", benchModule, err)
	}
	return filepath.Join(dir, "peers"), nil
}

// flagsFile is where a peer keeps what its build needs besides.
const flagsFile = "build.flags"

func goBuild(ctx context.Context, source, output string) error {
	args := []string{"build", "-o", output}
	if flags, err := os.ReadFile(filepath.Join(source, flagsFile)); err == nil {
		args = append(args, strings.Fields(string(flags))...)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = source
	if _, err := os.Stat(filepath.Join(source, "go.mod")); err == nil {
		// The workspace would give all peers the newest version that one asks for.
		cmd.Env = append(os.Environ(), "GOWORK=off")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("harness: building %s: %w\n%s", source, err, out)
	}
	return nil
}
