//go:build !race

package housecheck

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const root = "../.."

// source is a parsed Go file.
type source struct {
	path      string // from the root, with slashes
	text      string
	fset      *token.FileSet
	file      *ast.File
	test      bool
	generated bool
}

func (s *source) folder() string { return path.Dir(s.path) }

// nested reports whether the file is in a separate module of programs, which is not a library.
func (s *source) nested() bool {
	return strings.HasPrefix(s.path, "bench/") || strings.HasPrefix(s.path, "cmd/") || strings.HasPrefix(s.path, "e2e/") || strings.HasPrefix(s.path, "examples/")
}

// at returns a message with the place of n.
func (s *source) at(n ast.Node, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.path, s.line(n.Pos()), fmt.Sprintf(format, args...))
}

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

// commented reports whether there is a comment on the line of n.
func (s *source) commented(n ast.Node) bool {
	for _, c := range s.file.Comments {
		if s.line(c.Pos()) == s.line(n.Pos()) {
			return true
		}
	}
	return false
}

// imports reports whether the file imports the package.
func (s *source) imports(name string) bool {
	for _, spec := range s.file.Imports {
		if spec.Path.Value == `"`+name+`"` {
			return true
		}
	}
	return false
}

func parse(name, text string) (*source, error) {
	s := &source{path: name, text: text, fset: token.NewFileSet(), test: strings.HasSuffix(name, "_test.go")}
	var err error
	if s.file, err = parser.ParseFile(s.fset, name, text, parser.ParseComments); err != nil {
		return nil, err
	}
	s.generated = ast.IsGenerated(s.file)
	return s, nil
}

// goFiles returns all Go files of the repository, parsed, nested modules included.
func goFiles(t *testing.T) []*source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// files returns the repository's text files, by their path from the root, without test data,
// which the rules do not apply to.
func files(t *testing.T) map[string]string {
	t.Helper()
	all, err := read()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parsed and read work once for all tests, which must not change what they return.
var (
	parsed = sync.OnceValues(func() (all []*source, err error) {
		texts, err := read()
		for name, text := range texts {
			if path.Ext(name) != ".go" {
				continue
			}
			s, err := parse(name, text)
			if err != nil {
				return nil, err
			}
			all = append(all, s)
		}
		return all, err
	})
	read = sync.OnceValues(func() (map[string]string, error) {
		all := map[string]string{}
		err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
			name, _ := filepath.Rel(root, file)
			switch {
			case err != nil:
				return err
			case d.IsDir() && skipped(name):
				return filepath.SkipDir
			case d.IsDir(), name == ".git": // in one of git's worktrees, .git is a file
				return nil
			}
			text, err := os.ReadFile(file)
			if err == nil && !strings.Contains(string(text), "\x00") {
				all[filepath.ToSlash(name)] = string(text)
			}
			return err
		})
		return all, err
	})
)

func skipped(folder string) bool {
	base := filepath.Base(folder)
	hidden := strings.HasPrefix(base, ".") && folder != "." && folder != ".ci"
	return hidden || base == "testdata" || base == "__pycache__" || base == "node_modules" || base == "test-output"
}
