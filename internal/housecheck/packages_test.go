//go:build !race

package housecheck

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pkg has the properties of the files in one folder.
type pkg struct {
	comment     bool
	code        bool
	goroutine   string // where the package starts one
	leakChecked bool
}

func packages(t *testing.T) map[string]*pkg {
	t.Helper()
	all := map[string]*pkg{}
	for _, s := range goFiles(t) {
		p := all[s.folder()]
		if p == nil {
			p = &pkg{}
			all[s.folder()] = p
		}
		if s.test {
			p.leakChecked = p.leakChecked || s.imports("go.uber.org/goleak") && strings.Contains(s.text, "func TestMain(")
			continue
		}
		p.code = true
		p.comment = p.comment || s.file.Doc != nil
		isSuite := strings.HasSuffix(s.folder(), "test") // the tests that use it check for leaks
		if at := startsGoroutine(s); at != "" && !s.nested() && !isSuite {
			p.goroutine = at
		}
	}
	return all
}

// startsGoroutine finds a go statement or a call of a WaitGroup's Go.
func startsGoroutine(s *source) (where string) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch v := n.(type) {
		case *ast.GoStmt:
			where = s.at(v, "goroutine")
		case *ast.CallExpr:
			if sel, ok := v.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Go" && len(v.Args) == 1 {
				where = s.at(v, "goroutine")
			}
		}
		return true
	})
	return where
}

func TestPackagesHaveComments(t *testing.T) {
	for folder, p := range packages(t) {
		if p.code && !p.comment {
			t.Errorf("%s: no file has a package comment", folder)
		}
	}
}

// own are the folders of packages that are for this repository only, without those of tests.
var own = []string{"bench", "cmd", "e2e", "examples", "protocol/protocoltest", "internal"} //nolint:gochecknoglobals // a constant

// stability finds the word that a package comment has after the package's name.
var stability = regexp.MustCompile(`^Package \w+ \((stable|experimental)\) `) //nolint:gochecknoglobals // a constant

// TestPackagesSayHowStable requires that the comment of every package that users may import
// begins with its stability, and that docs/reference/packages.md lists the same.
func TestPackagesSayHowStable(t *testing.T) {
	list := files(t)["docs/reference/packages.md"]
	found := 0
	for _, s := range goFiles(t) {
		folder := s.folder()
		if s.test || s.file.Doc == nil || s.file.Name.Name == "main" || slices.ContainsFunc(strings.Split(folder, "/"), func(part string) bool { return part == "internal" || part == "testdata" }) ||
			slices.ContainsFunc(own, func(o string) bool { return folder == o || strings.HasPrefix(folder, o+"/") }) || strings.HasPrefix(folder, "protocol/web/") {
			continue
		}
		found++
		word := stability.FindStringSubmatch(s.file.Doc.Text())
		if word == nil {
			t.Errorf("%s: want a package comment that begins with its name and (stable) or (experimental)", s.path)
			continue
		}
		name := folder
		if folder == "." || folder == "" {
			name = "tandem"
		}
		if row := "| `" + name + "` | " + word[1] + " |"; !strings.Contains(list, row) {
			t.Errorf("docs/reference/packages.md has no row %q", row)
		}
	}
	if rows := strings.Count(list, "\n| `"); rows != found {
		t.Errorf("docs/reference/packages.md has %d rows, for %d packages", rows, found)
	}
}

// TestGoroutinesAreLeakChecked requires a TestMain with goleak in each package that starts
// goroutines.
func TestGoroutinesAreLeakChecked(t *testing.T) {
	found := 0
	for folder, p := range packages(t) {
		if p.goroutine == "" {
			continue
		}
		found++
		if !p.leakChecked {
			t.Errorf("%s, but no TestMain in %s calls goleak", p.goroutine, folder)
		}
	}
	if found == 0 {
		t.Error("no goroutine found anywhere: the test does not look")
	}
}

// TestFewRequirements limits the requirements of the core, as they affect the module versions
// of every program that imports it.
func TestFewRequirements(t *testing.T) {
	direct := 0
	for line := range strings.Lines(files(t)["go.mod"]) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "replace") {
			t.Errorf("go.mod: %s: a library can't replace what its users choose", line)
		}
		if strings.Contains(line, " v") && !strings.Contains(line, "// indirect") {
			direct++
		}
	}
	if direct > 8 {
		t.Errorf("go.mod has %d direct requirements, limit 8", direct)
	}
}
