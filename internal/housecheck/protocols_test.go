//go:build !race

package housecheck

import (
	"go/ast"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestEveryProtocolChecksItsCallers requires, for each package below protocol that makes calls
// on a server, a row in the table of package all, or its own test with a name that begins like
// that of the table's test: every protocol must refuse the same callers.
func TestEveryProtocolChecksItsCallers(t *testing.T) {
	sources := goFiles(t)
	protocols := protocolFolders(sources)
	if len(protocols) < 6 {
		t.Errorf("found only %q: the test does not look", protocols)
	}
	for _, folder := range protocols {
		if !checksCallers(sources, folder) {
			t.Errorf("%s: has no row in TestAuthOnEveryProtocol of protocol/all, and no test TestAuthOnEvery… of its own", folder)
		}
	}
}

// protocolFolders returns the packages below protocol that make calls on a server: that call
// Conn.Go.
func protocolFolders(sources []*source) (folders []string) {
	for _, s := range sources {
		if s.test || !strings.HasPrefix(s.path, "protocol/") || !s.imports("github.com/tandem-rpc/tandem/server") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && isConnGo(call) && !slices.Contains(folders, s.folder()) {
				folders = append(folders, s.folder())
			}
			return true
		})
	}
	return folders
}

// isConnGo reports whether a call looks like conn.Go(ctx, call, done).
func isConnGo(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	return ok && f.Sel.Name == "Go" && len(call.Args) == 3
}

func checksCallers(sources []*source, folder string) bool {
	for _, s := range sources {
		switch {
		case !s.test:
		case s.folder() == folder && hasFunc(s, "TestAuthOnEvery"):
			return true
		case s.folder() == "protocol/all" && hasFunc(s, "TestAuthOnEveryProtocol") && slices.Contains(rowsOf(s), path.Base(folder)):
			return true
		}
	}
	return false
}

func hasFunc(s *source, prefix string) bool {
	for d := range funcs(s) {
		if strings.HasPrefix(d.Name.Name, prefix) {
			return true
		}
	}
	return false
}

// rowsOf returns the protocols of the variable rows: the second string of each row.
func rowsOf(s *source) (protocols []string) {
	ast.Inspect(s.file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || v.Names[0].Name != "rows" || len(v.Values) != 1 {
			return true
		}
		table, ok := v.Values[0].(*ast.CompositeLit)
		if !ok {
			return true
		}
		for _, e := range table.Elts {
			if row, ok := e.(*ast.CompositeLit); ok && len(row.Elts) > 1 {
				if name, ok := row.Elts[1].(*ast.BasicLit); ok {
					protocols = append(protocols, strings.Trim(name.Value, `"`))
				}
			}
		}
		return false
	})
	return protocols
}

func TestProtocolWithoutARowIsFound(t *testing.T) {
	const code = "package a\nimport \"github.com/tandem-rpc/tandem/server\"\nfunc f(c *server.Conn) { c.Go(nil, nil, nil) }"
	const table = "package all_test\nvar rows = []row{{\"a\", \"netrpc\", f}}\nfunc TestAuthOnEveryProtocol() {}"
	sources := slices.Concat(sample(t, "protocol/new/a.go", code), sample(t, "protocol/netrpc/a.go", code), sample(t, "other/a.go", code),
		sample(t, "protocol/own/a.go", code), sample(t, "protocol/own/a_test.go", "package a\nfunc TestAuthOnEveryDialect() {}"),
		sample(t, "protocol/all/auth_test.go", table))
	got := map[string]bool{}
	for _, folder := range protocolFolders(sources) {
		got[folder] = checksCallers(sources, folder)
	}
	if len(got) != 3 || got["protocol/new"] || !got["protocol/netrpc"] || !got["protocol/own"] {
		t.Errorf("found %v", got)
	}
}
