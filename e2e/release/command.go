package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// shell runs commands in a folder, with variables added to the environment.
type shell struct {
	dir string
	env []string
}

// run returns the command's standard output without white space around it. Its error
// holds what the command wrote.
func (s shell) run(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), s.env...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, said.String())
	}
	return strings.TrimSpace(string(out)), nil
}

// lines splits a command's output.
func lines(out string) []string {
	if out == "" {
		return nil
	}
	return strings.Split(out, "\n")
}

// sayf prints a message with the time.
func sayf(format string, args ...any) {
	fmt.Fprintf(os.Stdout, "%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, args...))
}
