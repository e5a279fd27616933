package harness

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// revision returns the commit of the source tree, with "-changed" after it if a file
// differs (kept results excluded), or "unknown" outside of a git clone.
func revision(ctx context.Context) (string, error) {
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
