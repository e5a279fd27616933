package housecheck

import (
	"go/ast"
	"strings"
	"testing"
)

// pkg has what the tests need to know about the files of one folder.
type pkg struct {
	comment     bool
	code        bool
	goroutine   string // where one is started
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
		isSuite := strings.HasSuffix(s.folder(), "test") // the tests of its users check it
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

// TestGoroutinesAreLeakChecked requires a TestMain with goleak in packages that start
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

// TestFewRequirements keeps the core's requirements few: every program that imports it gets
// them.
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
