package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	testscript.Main(checked{m}, map[string]func(){"tandem": main})
}

// checked runs the tests and fails if goroutines are left.
type checked struct{ *testing.M }

func (m checked) Run() (code int) {
	goleak.VerifyTestMain(m.M, goleak.Cleanup(func(c int) { code = c }))
	removeBinary()
	return code
}

// TestScripts runs the scripts of testdata/script, which show what the commands do and print.
// With TANDEM_UPDATE set, it replaces the expected output in the scripts by what the commands print.
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("runs processes")
	}
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		UpdateScripts: os.Getenv("TANDEM_UPDATE") != "",
		Setup: func(env *testscript.Env) error {
			env.Values[followed{}] = make(map[string]*bufio.Scanner)
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exit":   exitWith,
			"server": startServer,
			"certs":  makeCerts,
			"follow": follow,
			"expect": expect,
		},
	})
}

// exitWith is the script command exit CODE COMMAND…: it runs a command, which must end with that
// exit code. What it prints is in stdout and stderr, as after exec.
func exitWith(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exit CODE COMMAND…")
	}
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		code, err = failed.ExitCode(), nil
	}
	ts.Check(err)
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// startServer is the script command server VARIABLE [FLAGS…]: it runs tandem serve with the
// flags on a free port until the script ends, sets the variable to its target, and VARIABLE_ADDRESS
// to its host and port.
func startServer(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: server VARIABLE [FLAGS…]")
	}
	lines := background(ts, append([]string{"serve", "--listen", "tcp://127.0.0.1:0"}, args[1:]...))
	if !lines.Scan() {
		ts.Fatalf("the server has ended")
	}
	target, _, _ := strings.Cut(strings.TrimPrefix(lines.Text(), "serving "), ": ")
	_, address, _ := strings.Cut(target, "://")
	ts.Setenv(args[0], target)
	ts.Setenv(args[0]+"_ADDRESS", address)
}

// background runs tandem until the script ends, and returns the lines that it prints.
func background(ts *testscript.TestScript, args []string) *bufio.Scanner {
	path, err := exec.LookPath("tandem")
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	ts.Defer(cancel)
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = ts.MkAbs(".")
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+ts.Getenv("XDG_CONFIG_HOME"))
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, out) // Wait requires that all output was read
		_ = cmd.Wait()
	})
	return bufio.NewScanner(out)
}

// followed is the key of the commands that a script follows, by their names.
type followed struct{}

// follow is the script command follow NAME COMMAND…: it runs a command of tandem until the script
// ends.
func follow(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 3 || args[1] != "tandem" {
		ts.Fatalf("usage: follow NAME tandem COMMAND…")
	}
	ts.Value(followed{}).(map[string]*bufio.Scanner)[args[0]] = background(ts, args[2:])
}

// expect is the script command expect NAME PATTERN [VARIABLE]: it reads what a command that is
// followed prints, until a line matches, and sets the variable to the first group of the pattern.
func expect(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 || len(args) > 3 {
		ts.Fatalf("usage: expect NAME PATTERN [VARIABLE]")
	}
	lines := ts.Value(followed{}).(map[string]*bufio.Scanner)[args[0]]
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	for lines.Scan() {
		if found := pattern.FindStringSubmatch(lines.Text()); found != nil {
			if len(args) > 2 {
				ts.Setenv(args[2], found[1])
			}
			return
		}
		ts.Logf("%s", lines.Text())
	}
	ts.Fatalf("%s has ended before a line matched %s", args[0], args[1])
}
