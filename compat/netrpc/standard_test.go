package rpc_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestStandardLibrarysOwnTests runs the tests of net/rpc and net/rpc/jsonrpc of the installed
// Go, not a copy, with the names of this package. The two that count allocations are left
// out: they print and test nothing.
func TestStandardLibrarysOwnTests(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds a module of its own")
	}
	dir, std := t.TempDir(), filepath.Join(goroot(t), "src", "net", "rpc")
	repository, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	const ours = "github.com/tandem-rpc/tandem/compat/netrpc"
	write("go.mod", "module facade\ngo 1.26\nrequire github.com/tandem-rpc/tandem v0.0.0\nreplace github.com/tandem-rpc/tandem => "+filepath.ToSlash(repository)+"\n")
	write("go.sum", read(filepath.Join(repository, "go.sum")))
	write("rpc/facade.go", facade("rpc", ours, exports(t, std)))
	write("rpc/server_test.go", read(filepath.Join(std, "server_test.go")))
	write("rpc/client_test.go", read(filepath.Join(std, "client_test.go")))
	write("jsonrpc/facade.go", facade("jsonrpc", ours+"/jsonrpc", exports(t, filepath.Join(std, "jsonrpc"))))
	write("jsonrpc/all_test.go", strings.ReplaceAll(read(filepath.Join(std, "jsonrpc", "all_test.go")), `"net/rpc"`, `"facade/rpc"`))

	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-mod=mod", "-v", "-skip", "CountMallocs", "./...")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, err := cmd.CombinedOutput()
	passed := strings.Count(string(out), "--- PASS: Test")
	if err != nil || passed < 22 {
		t.Errorf("%d tests passed: %v\n%s", passed, err, out)
	}
	t.Logf("%d tests passed", passed)
}

// facade returns the source of a package with the same exports as another one.
func facade(name, path string, exports map[string]string) string {
	var s strings.Builder
	s.WriteString("package " + name + "\nimport ours \"" + path + "\"\n")
	for export, kind := range exports {
		switch {
		case strings.Contains(export, "."): // a method comes with its type
		case kind == "type":
			s.WriteString("type " + export + " = ours." + export + "\n")
		default:
			s.WriteString("var " + export + " = ours." + export + "\n")
		}
	}
	return s.String()
}
