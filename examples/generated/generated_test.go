// Package generated tests the programs of docs/howto/generated-code.md.
package generated

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The guides show the programs as they are, from their imports on, and the .proto file.
func TestGuidesShowThePrograms(t *testing.T) {
	for _, guide := range []string{"../../docs/howto/generated-code.md", "../../docs/zh/howto/generated-code.md"} {
		text := read(t, guide)
		for _, program := range []string{"server/main.go", "client/main.go"} {
			_, code, _ := strings.Cut(read(t, program), "package main\n\n")
			if !strings.Contains(text, "```go fragment\n"+code+"```\n") {
				t.Errorf("%s does not show examples/generated/%s as it is", guide, program)
			}
		}
		if !strings.Contains(text, "```proto\n"+read(t, "shop/shop.proto")+"```\n") {
			t.Errorf("%s does not show examples/generated/shop/shop.proto as it is", guide)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Two servers list themselves, a client finds them, and they drain when they are told to stop.
func TestPrograms(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	t.Cleanup(cancel) // after the servers have ended
	dir, list := t.TempDir(), filepath.Join(t.TempDir(), "shop")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", dir+string(filepath.Separator), "./server", "./client").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for range 2 {
		srv := exec.CommandContext(ctx, filepath.Join(dir, "server"), list)
		var said bytes.Buffer
		srv.Stderr = &said
		if err := srv.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = srv.Process.Signal(syscall.SIGTERM)
			if err := srv.Wait(); err != nil || said.Len() > 0 {
				t.Errorf("server: %v, %s", err, said.String())
			}
		})
	}
	for listed := 0; listed < 2; { // else the second would take over customers while the client runs
		entries, err := filepath.Glob(filepath.Join(list, "*.json"))
		if listed = len(entries); err != nil || ctx.Err() != nil {
			t.Fatalf("%d servers are listed: %v", listed, errors.Join(err, ctx.Err()))
		}
		time.Sleep(10 * time.Millisecond) // the servers are other processes
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "client"), list).CombinedOutput()
	const want = `map[tea:2] OK 
map[tea:5] OK 
map[] InvalidArgument 0 of tea: want 1 or more
map[tea:5] <nil>
map[tea:5] <nil>
`
	if err != nil || string(out) != want {
		t.Errorf("client: %v\ngot  %q\nwant %q", err, out, want)
	}
}
