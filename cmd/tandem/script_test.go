package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

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
// With TANDEM_UPDATE set, it writes the golden files in them anew.
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("runs processes")
	}
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "script"),
		UpdateScripts: os.Getenv("TANDEM_UPDATE") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exit":   exitWith,
			"server": startServer,
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
// flags on a free port until the script ends, and sets the variable to its target.
func startServer(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) == 0 {
		ts.Fatalf("usage: server VARIABLE [FLAGS…]")
	}
	path, err := exec.LookPath("tandem")
	ts.Check(err)
	cmd := exec.Command(path, append([]string{"serve", "--listen", "tcp://127.0.0.1:0"}, args[1:]...)...)
	cmd.Dir = ts.MkAbs(".")
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	ts.Defer(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_, _ = io.Copy(io.Discard, out) // Wait requires that all output was read
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	ts.Check(err)
	target, _, _ := strings.Cut(strings.TrimPrefix(line, "serving "), ": ")
	ts.Setenv(args[0], target)
}
