package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// oneCall is a call that the command makes, with the expected output and exit code.
type oneCall struct {
	args   []string // of tandem call, after the target
	answer string
	exit   int
}

// calls are made in both directions. They call methods that every release has.
func calls() []oneCall {
	long := `{"A":6,` + strings.Repeat(" ", 100_000) + `"B":7}` // several frames
	return []oneCall{
		{[]string{"Arith.Mul", `{"A":6,"B":7}`}, `{"C":42}`, 0},
		{[]string{"Arith.Mul", long}, `{"C":42}`, 0},
		{[]string{"-n", "Arith.Div", "[17,5]"}, "[3,2]", 0},
		{[]string{"-n", "Arith.Div", "[17,0]"}, "", 13}, // invalid argument
		{[]string{"Arith.NoSuchMethod", "{}"}, "", 22},  // unimplemented
		{[]string{"--metadata", "k=v", "--idempotent", "Arith.Mul", `{"A":1,"B":2}`}, `{"C":2}`, 0},
	}
}

// callAcross builds the command of the previous release and of the work tree, and makes each
// call a server of the other.
func callAcross(ctx context.Context, s settings, temp string) error {
	base, name, released, err := previous(ctx, s.base)
	if errors.Is(err, errNoBase) {
		sayf("%v", err)
		return nil
	}
	if err != nil {
		return err
	}
	now, err := snapshot(ctx, temp)
	if err != nil {
		return err
	}
	older, newer := filepath.Join(temp, "older"), filepath.Join(temp, "newer")
	for tree, revision := range map[string]string{older: base, newer: now} {
		if err := clone(ctx, revision, tree); err != nil {
			return err
		}
	}
	if released {
		if err := useFolders(ctx, older, name); err != nil {
			return err
		}
	}
	for _, tree := range []string{older, newer} {
		if _, err := (shell{dir: tree}).run(ctx, "go", "build", "-buildvcs=false", "-o", filepath.Join(tree, "command"), "./cmd/tandem"); err != nil {
			return err
		}
	}
	for _, pair := range [][2]string{{older, newer}, {newer, older}} {
		server, client := filepath.Join(pair[0], "command"), filepath.Join(pair[1], "command")
		if err := callServer(ctx, server, client); err != nil {
			return fmt.Errorf("the %s client calls the %s server: %w", filepath.Base(pair[1]), filepath.Base(pair[0]), err)
		}
	}
	sayf("%d calls in each direction between %s and the work tree", len(calls()), name)
	return nil
}

// useFolders adds replaces to the workspace of a release, of the released modules by their
// folders. Without them, the go command reads their go.mod files from the module proxy, which
// may not have the release yet.
func useFolders(ctx context.Context, tree, version string) error {
	modules, err := readModules(ctx, tree)
	if err != nil {
		return err
	}
	edit := []string{"work", "edit"}
	for _, m := range modules {
		edit = append(edit, "-replace="+m.path()+"@"+version+"=./"+m.dir)
	}
	_, err = shell{dir: tree}.run(ctx, "go", edit...)
	return err
}

// callServer starts the server's command, makes the calls with the client's, and shuts the
// server down gracefully.
func callServer(ctx context.Context, server, client string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, server, "serve", "--listen", "tcp://127.0.0.1:0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the server's first line: %w", err)
	}
	target, _, found := strings.Cut(strings.TrimPrefix(line, "serving "), ": ")
	if !found {
		return fmt.Errorf("the server's first line is %q, want \"serving ADDRESS: METHODS\"", line)
	}
	for _, c := range calls() {
		if err := c.make(ctx, client, target); err != nil {
			return err
		}
	}
	return nil
}

func (c oneCall) make(ctx context.Context, client, target string) error {
	at := len(c.args) - 2 //nolint:mnd // flags come before the target, the method and its JSON after
	args := append([]string{"call"}, c.args[:at]...)
	args = append(append(args, target), c.args[at:]...)
	answer, err := shell{}.run(ctx, client, args...)
	exit := 0
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		exit, err = failed.ExitCode(), nil
	}
	if err == nil && (answer != c.answer || exit != c.exit) {
		err = fmt.Errorf("%.200q: answer %q and exit code %d, want %q and %d", c.args, answer, exit, c.answer, c.exit)
	}
	return err
}
