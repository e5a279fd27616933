//go:build !race

package housecheck

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// snippet is a block of Go in the documentation.
type snippet struct {
	where string
	info  string // the text after ```go
	code  string
}

var goBlock = regexp.MustCompile("(?ms)^```go([^\n]*)\n(.*?)^```")

// snippets finds the Go blocks of README.md and of docs.
func snippets(t *testing.T) (all []snippet) {
	t.Helper()
	for name, text := range files(t) {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, m := range goBlock.FindAllStringSubmatchIndex(text, -1) {
			where := fmt.Sprintf("%s:%d", name, 1+strings.Count(text[:m[0]], "\n"))
			all = append(all, snippet{where, strings.TrimSpace(text[m[2]:m[3]]), text[m[4]:m[5]]})
		}
	}
	return all
}

// TestSnippetsCompile vets every Go block of the documentation as a program in a module that
// requires this one. A block that is only a part of a file is marked "```go fragment", and is
// only parsed.
func TestSnippetsCompile(t *testing.T) {
	module := newModule(t)
	programs := 0
	for _, s := range snippets(t) {
		switch {
		case s.info == "fragment":
			if _, err := parse("a.go", "package a\n"+s.code); err != nil {
				if _, err = parse("a.go", "package a\nfunc _() {\n"+s.code+"\n}"); err != nil {
					t.Errorf("%s: %v", s.where, err)
				}
			}
		case s.info != "":
			t.Errorf("%s: %q is not a kind of Go block", s.where, s.info)
		default:
			programs++
			module.add(fmt.Sprintf("snippet%d", programs), s)
		}
	}
	if programs == 0 {
		t.Fatal("the documentation has no Go block")
	}
	if out, err := module.goCommand("vet", "./..."); err != nil {
		t.Errorf("%v\n%s", err, module.translate(out))
	}
}

// TestBadSnippetIsFound shows that TestSnippetsCompile can fail.
func TestBadSnippetIsFound(t *testing.T) {
	module := newModule(t)
	module.add("bad", snippet{where: "a.md:1", code: "package main\nimport \"github.com/tandem-rpc/tandem/client\"\nfunc main() { client.NoSuchThing() }"})
	out, err := module.goCommand("vet", "./...")
	if err == nil || !strings.Contains(module.translate(out), "a.md:1") {
		t.Errorf("got %v: %s", err, out)
	}
}

// TestHelloWorldRuns runs the README's first program, of at most 25 lines, and compares its
// output with its comment "prints: ".
func TestHelloWorldRuns(t *testing.T) {
	for _, s := range snippets(t) {
		if !strings.HasPrefix(s.where, "README.md") || s.info != "" {
			continue
		}
		module := newModule(t)
		module.add("hello", s)
		_, comment, _ := strings.Cut(s.code, "// prints: ")
		want, _, _ := strings.Cut(comment, "\n")
		if out, err := module.goCommand("run", "./hello"); err != nil || strings.TrimSpace(out) != want {
			t.Errorf("%s: got %q and %v, want %q", s.where, out, err, want)
		}
		if n := linesWithText(s.code); n > 25 {
			t.Errorf("%s: %d lines are no hello world", s.where, n)
		}
		return
	}
	t.Error("README.md has no program")
}

// linesWithText returns the number of lines that are not empty.
func linesWithText(code string) (n int) {
	for line := range strings.Lines(code) {
		if strings.TrimSpace(line) != "" {
			n++
		}
	}
	return n
}

// userModule is a module outside the repository that uses it.
type userModule struct {
	t     *testing.T
	dir   string
	where map[string]string // place of the snippet, by folder
}

func newModule(t *testing.T) *userModule {
	t.Helper()
	m := &userModule{t: t, dir: t.TempDir(), where: map[string]string{}}
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := download(); err != nil {
		t.Fatal(err)
	}
	const name = "github.com/tandem-rpc/tandem"
	m.write("go.mod", fmt.Sprintf("module example.com/user\n\ngo 1.26\n\nrequire %s v0.0.0\n\nreplace %s => %s\n", name, name, repository))
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	m.write("go.sum", string(sums))
	return m
}

// download downloads the modules of the repository's go.mod, unless they are in the module
// cache. Nothing else here uses the network.
var download = sync.OnceValue(func() error {
	cmd := exec.Command("go", "mod", "download")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go mod download: %w: %s", err, out)
	}
	return nil
})

func (m *userModule) add(folder string, s snippet) {
	m.where[folder] = s.where
	m.write(filepath.Join(folder, "main.go"), s.code)
}

func (m *userModule) write(name, text string) {
	m.t.Helper()
	name = filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// goCommand runs the go command in the module, offline.
func (m *userModule) goCommand(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(m.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = m.dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// translate replaces the names of the snippets' files by the snippets' places.
func (m *userModule) translate(out string) string {
	for folder, where := range m.where {
		out = strings.ReplaceAll(out, folder+"/main.go", where+" +")
	}
	return out
}
