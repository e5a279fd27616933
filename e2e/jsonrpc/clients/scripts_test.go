package jsonrpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// clientsEnv is the environment variable with the folder in which run.sh has installed the
// clients.
const clientsEnv = "JSONRPC_CLIENTS"

// The numbers of cases. The tests fail if a case does not run.
const (
	casesJavaScript = 35
	casesPython     = 21
)

func TestJavaScript(t *testing.T) { runScript(t, casesJavaScript, "node", "js/clients.mjs") }
func TestPython(t *testing.T)     { runScript(t, casesPython, "python3", "python/clients.py") }

// runScript runs a script that prints a line for each case.
func runScript(t *testing.T, cases int, interpreter, script string) {
	t.Helper()
	installed := os.Getenv(clientsEnv)
	if installed == "" {
		t.Fatalf("$%s is not set: run e2e/jsonrpc/clients/run.sh", clientsEnv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, filepath.Join(installed, script), serve(t))
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(installed, "python", "lib"))
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	passed, all := map[string]int{}, map[string]int{}
	total := 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		what, ok := strings.CutPrefix(lines.Text(), "ok ")
		what = strings.TrimPrefix(what, "not ok ")
		client, _, _ := strings.Cut(what, ": ")
		all[client]++
		total++
		if ok {
			passed[client]++
		} else {
			t.Error(lines.Text())
		}
	}
	for _, client := range slices.Sorted(maps.Keys(all)) {
		t.Logf("%s: %d of %d", client, passed[client], all[client])
	}
	if total != cases || err != nil {
		t.Errorf("%d cases, want %d; %v\n%s", total, cases, err, complaints.String())
	}
}
