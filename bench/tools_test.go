package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// drawing are modules that only bench/tools may be built with.
var drawing = []string{"gonum.org/", "golang.org/x/image", "golang.org/x/perf", "git.sr.ht/"}

// TestNobodyIsBuiltWithThePlottingLibrary asks the go command what the bench and
// the workspace's peers are built from: a library that is linked into a peer
// changes what is measured.
func TestNobodyIsBuiltWithThePlottingLibrary(t *testing.T) {
	if !foreign(dependencies(t, "tools", "./plot")) {
		t.Error("not even the program that draws has the library: the test does not look")
	}
	if foreign(dependencies(t, ".", "./...")) {
		t.Error("the bench or a peer of the workspace is built with the plotting library")
	}
	peers, err := filepath.Glob("peers/*/go.mod")
	if err != nil || len(peers) == 0 {
		t.Fatalf("no peers: %v", err)
	}
	for _, mod := range append(peers, "go.mod") {
		text, err := os.ReadFile(mod)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "gonum.org/") {
			t.Errorf("%s requires the plotting library", mod)
		}
	}
}

// dependencies are all packages that the program in a folder is built from.
func dependencies(t *testing.T, folder, pattern string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", pattern)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func foreign(packages string) bool {
	for line := range strings.Lines(packages) {
		for _, prefix := range drawing {
			if strings.HasPrefix(line, prefix) {
				return true
			}
		}
	}
	return false
}
