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

// built is a folder of built peers.
type built struct{ dir string }

func (b built) path(system string) string { return filepath.Join(b.dir, system) }

// remove deletes the folder. A failure is ignored: it is a temporary folder.
func (b built) remove() { _ = os.RemoveAll(b.dir) }

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

// build compiles the systems' peers, each a program of its own. remove deletes
// them.
func build(ctx context.Context, systems []string) (b built, err error) {
	known, err := Systems(ctx)
	if err != nil {
		return b, err
	}
	source, err := peerSource(ctx)
	if err != nil {
		return b, err
	}
	dir, err := os.MkdirTemp("", "bench-peers-")
	if err != nil {
		return b, fmt.Errorf("harness: %w", err)
	}
	b = built{dir}
	for _, name := range systems {
		folder, _, _ := strings.Cut(name, "+") // what follows are options; see load.Named
		if !slices.Contains(known, folder) {
			err = fmt.Errorf("harness: no system %q; there are %s", name, strings.Join(known, ", "))
		} else {
			err = b.add(ctx, filepath.Join(source, folder), name)
		}
		if err != nil {
			b.remove()
			return b, err
		}
	}
	return b, nil
}

// add compiles the peer in the folder, unless that has been done for another
// system of the same peer, and gives it the system's name.
func (b built) add(ctx context.Context, folder, name string) error {
	first := b.path("peer." + filepath.Base(folder))
	if _, err := os.Stat(first); err != nil {
		cmd := exec.CommandContext(ctx, "go", "build", "-o", first, ".")
		cmd.Dir = folder
		// The workspace would give the peers the newest version that any module requires.
		cmd.Env = append(os.Environ(), "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("harness: building %s: %w\n%s", folder, err, out)
		}
	}
	if err := os.Link(first, b.path(name)); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("harness: naming the peer of %s: %w", name, err)
	}
	return nil
}

// peerSource finds bench/peers, from any folder of the workspace.
func peerSource(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", benchModule).Output()
	dir := string(bytes.TrimSpace(out))
	if err != nil || dir == "" {
		return "", fmt.Errorf("harness: module %s not found; run inside the repository: %w", benchModule, err)
	}
	return filepath.Join(dir, "peers"), nil
}
