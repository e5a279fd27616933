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

	"github.com/tandem-rpc/tandem/bench/java"
)

const benchModule = "github.com/tandem-rpc/tandem/bench"

// Built is a folder of built peers.
type Built struct {
	dir     string
	missing map[string]string // systems in Java that could not be built, and why
}

func (b Built) path(system string) string { return filepath.Join(b.dir, system) }

// Remove deletes the folder. It lies among temporary files; a failure is not
// worth a word.
func (b Built) Remove() { _ = os.RemoveAll(b.dir) }

// Start runs a subcommand of a system's peer on this machine; package load says
// which there are. The peer is killed when ctx ends.
func (b Built) Start(ctx context.Context, system string, args ...string) (*Peer, error) {
	if why, is := b.missing[system]; is {
		return nil, fmt.Errorf("harness: no %s on this machine: %s", system, why)
	}
	return startPeer(ctx, nil, b.path(system), args...)
}

// StartUnder is Start under another program, such as valgrind: runner is its
// command line, to which the peer's is added. The peer must keep the program's
// process number, may be many times slower, and gets a minute to end. Systems
// in Java have a script in between, and can't be run so.
func (b Built) StartUnder(ctx context.Context, runner []string, system string, args ...string) (*Peer, error) {
	if java.Is(system) {
		return nil, fmt.Errorf("harness: %s is in Java, and does not run under %s", system, runner[0])
	}
	p, err := startPeer(ctx, runner, b.path(system), args...)
	if err == nil {
		p.grace = slowGrace
	}
	return p, err
}

// Systems returns the names of all peers in the source tree but those in Java,
// which are measured only if they are named.
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

// Build compiles the systems' peers, each in its own folder, so that one with
// a go.mod of its own is built with that. Remove deletes them. One in Java that
// can't be built is left out, with the reason: not every machine has the tools
// and the jars. The environment of the go command gets env besides, such as
// "CGO_ENABLED=0".
func Build(ctx context.Context, systems []string, env ...string) (Built, error) {
	known, err := Systems(ctx)
	if err != nil {
		return Built{}, err
	}
	source, err := peerSource(ctx)
	if err != nil {
		return Built{}, err
	}
	dir, err := os.MkdirTemp("", "bench-peers-")
	if err != nil {
		return Built{}, fmt.Errorf("harness: %w", err)
	}
	b := Built{dir: dir}
	for _, name := range systems {
		if java.Is(name) {
			continue
		}
		folder, _, _ := strings.Cut(name, "+") // what follows are options; see load.Named
		if !slices.Contains(known, folder) {
			b.Remove()
			return Built{}, fmt.Errorf("harness: no system %q; there are %s", name, strings.Join(append(known, java.Systems()...), ", "))
		}
		if err := b.build(ctx, source, folder, name, env); err != nil {
			b.Remove()
			return Built{}, err
		}
	}
	b.missing = java.Build(ctx, filepath.Dir(source), dir, systems)
	if err := ctx.Err(); err != nil {
		b.Remove()
		return Built{}, fmt.Errorf("harness: interrupted while building: %w", err)
	}
	return b, nil
}

// build compiles the peer in the folder, unless that has been done for another
// system of the same peer, and gives it the system's name.
func (b Built) build(ctx context.Context, source, folder, name string, env []string) error {
	first := filepath.Join(b.dir, "peer."+folder)
	if _, err := os.Stat(first); err != nil {
		if err := goBuild(ctx, filepath.Join(source, folder), first, env); err != nil {
			return err
		}
	}
	if err := os.Link(first, b.path(name)); err != nil && !errors.Is(err, os.ErrExist) {
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

func goBuild(ctx context.Context, source, output string, env []string) error {
	args := []string{"build", "-o", output}
	if flags, err := os.ReadFile(filepath.Join(source, flagsFile)); err == nil {
		args = append(args, strings.Fields(string(flags))...)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, ".")...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), env...)
	if _, err := os.Stat(filepath.Join(source, "go.mod")); err == nil {
		// The workspace would give all peers the newest version that one asks for.
		cmd.Env = append(cmd.Env, "GOWORK=off")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("harness: building %s: %w\n%s", source, err, out)
	}
	return nil
}
