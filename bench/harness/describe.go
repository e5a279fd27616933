package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/tandem-rpc/tandem/bench/java"
)

// System says how a system was set up.
type System struct {
	Name     string   `json:"name"`              // with its options
	Settings string   `json:"settings"`          // as the table in bench/README.md has them
	Modules  []string `json:"modules,omitempty"` // what it is built from besides this repository, "path version"; jars are "group:artifact version"
}

// describe looks up how systems are set up.
func describe(ctx context.Context, systems []string) ([]System, error) {
	source, err := peerSource(ctx)
	if err != nil {
		return nil, err
	}
	readme, err := os.ReadFile(filepath.Join(source, "..", "README.md"))
	if err != nil {
		return nil, fmt.Errorf("harness: %w", err)
	}
	settings := settingsTable(string(readme))
	var all []System
	for _, name := range systems {
		peer, _, _ := strings.Cut(name, "+") // what follows are options
		var modules []string
		if java.Is(name) {
			modules, err = java.Jars(filepath.Dir(source), name)
		} else {
			modules, err = requirements(ctx, filepath.Join(source, peer))
		}
		if err != nil {
			return nil, err
		}
		all = append(all, System{name, settings[peer], modules})
	}
	return all, nil
}

// settingsTable reads the rows "| `system` | settings |" of README.md; systems
// that are set up alike share a row.
func settingsTable(readme string) map[string]string {
	table := map[string]string{}
	_, section, _ := strings.Cut(readme, "\n## Settings\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if len(cells) != 2 || !strings.HasPrefix(cells[0], "`") {
			continue
		}
		for name := range strings.SplitSeq(cells[0], ", ") {
			table[strings.Trim(name, "`")] = cells[1]
		}
	}
	return table
}

// requirements are the foreign modules that a peer's own go.mod asks for; none
// for a peer without one.
func requirements(ctx context.Context, folder string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(folder, "go.mod")); err != nil {
		return nil, nil //nolint:nilerr // it is built with the bench's go.mod then
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "edit", "-json")
	cmd.Dir = folder
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("harness: reading %s: %w", filepath.Join(folder, "go.mod"), err)
	}
	var mod struct {
		Require []struct {
			Path     string `json:"Path"`
			Version  string `json:"Version"`
			Indirect bool   `json:"Indirect"`
		} `json:"Require"`
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, fmt.Errorf("harness: reading %s: %w", filepath.Join(folder, "go.mod"), err)
	}
	var all []string
	for _, r := range mod.Require {
		if !r.Indirect && !strings.HasPrefix(r.Path, "github.com/tandem-rpc/tandem") {
			all = append(all, r.Path+" "+r.Version)
		}
	}
	return all, nil
}

// Revision names the commit of the source tree, "-changed" behind it if a file
// differs (kept results aside), and is "unknown" outside of a git clone.
func Revision(ctx context.Context) (string, error) {
	source, err := peerSource(ctx)
	if err != nil {
		return "", err
	}
	root := filepath.Join(source, "..", "..")
	head, err := git(ctx, root, "rev-parse", "--short=12", "HEAD")
	if err != nil {
		return "unknown", nil //nolint:nilerr // a source archive has no history
	}
	status, err := git(ctx, root, "status", "--porcelain", "--", ".", ":!bench/results")
	if err != nil {
		return "", err
	}
	if status != "" {
		head += "-changed"
	}
	return head, nil
}

// git runs a command in a clone and returns what it prints.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("harness: git %s: %w: %s", strings.Join(args, " "), err, &stderr)
	}
	return strings.TrimSpace(string(out)), nil
}
