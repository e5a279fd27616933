package rpc_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	stdrpc "net/rpc"

	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
)

// TestSameAPI compares the installed standard library with this package: every export exists
// here, with the same type. TestAnotherAPIIsFound shows that the comparison can fail.
func TestSameAPI(t *testing.T) {
	std := filepath.Join(goroot(t), "src", "net", "rpc")
	for folder, names := range map[string]int{".": 37, "jsonrpc": 5} {
		want, got := exports(t, filepath.Join(std, folder)), exports(t, folder)
		if len(want) < names {
			t.Errorf("%s: only %d exports were found in the standard library", folder, len(want))
		}
		for _, problem := range missing(want, got) {
			t.Errorf("%s: %s", folder, problem)
		}
	}
	if rpc.DefaultRPCPath != stdrpc.DefaultRPCPath || rpc.DefaultDebugPath != stdrpc.DefaultDebugPath {
		t.Error("the default paths differ")
	}
}

func TestAnotherAPIIsFound(t *testing.T) {
	want := map[string]string{"F": "func(int)", "T": "type", "V": "value"}
	for name, got := range map[string]map[string]string{
		"none":           {},
		"another type":   {"F": "func(string)", "T": "T = rpc.T", "V": "value"},
		"a type of ours": {"F": "func(int)", "T": "type", "V": "value"},
	} {
		if len(missing(want, got)) == 0 {
			t.Errorf("%s: nothing is missing", name)
		}
	}
	if bad := missing(want, map[string]string{"F": "func(int)", "T": "T = rpc.T", "V": "value", "More": "type"}); len(bad) > 0 {
		t.Error(bad)
	}
}

func goroot(t *testing.T) string {
	t.Helper()
	if root := runtime.GOROOT(); root != "" { //nolint:staticcheck // a test runs where it was built
		return root
	}
	t.Fatal("no GOROOT: run the tests with the go command")
	return ""
}

// missing returns a message for each export that is not in got, or has another type there. A
// type must be an alias of net/rpc's; Server is not, so its methods are compared.
func missing(want, got map[string]string) (bad []string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		w, g := want[name], got[name]
		alias := name + " = rpc." + name
		owner, _, method := strings.Cut(name, ".")
		switch {
		case w == g && w != "type", w == "type" && (g == alias || name == "Server"):
		case method && got[owner] == owner+" = rpc."+owner: // a method of an alias
		default:
			bad = append(bad, name+" is "+g+", want "+w)
		}
	}
	return bad
}

// exports returns the exported names of the package in a folder, methods as "Type.Method",
// with a description of their kind and type.
func exports(t *testing.T, folder string) map[string]string {
	t.Helper()
	list := map[string]string{}
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatal(fs.ErrNotExist, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			addExports(list, decl)
		}
	}
	return list
}

func addExports(list map[string]string, decl ast.Decl) {
	if f, ok := decl.(*ast.FuncDecl); ok {
		name := f.Name.Name
		if f.Recv != nil {
			owner := types.ExprString(f.Recv.List[0].Type)
			if !ast.IsExported(strings.TrimPrefix(owner, "*")) {
				return
			}
			name = strings.TrimPrefix(owner, "*") + "." + name
		}
		if f.Name.IsExported() {
			list[name] = signature(f.Type)
		}
		return
	}
	for _, spec := range decl.(*ast.GenDecl).Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			kind := "type"
			if s.Assign.IsValid() {
				kind = s.Name.Name + " = " + types.ExprString(s.Type)
			}
			if s.Name.IsExported() {
				list[s.Name.Name] = kind
			}
		case *ast.ValueSpec:
			for _, name := range s.Names {
				if name.IsExported() {
					list[name.Name] = "value"
				}
			}
		}
	}
}

// signature is a function's type without the names of its parameters.
func signature(f *ast.FuncType) string {
	var s strings.Builder
	for _, list := range []*ast.FieldList{f.Params, f.Results} {
		s.WriteString("(")
		if list != nil {
			for _, field := range list.List {
				for range max(1, len(field.Names)) {
					s.WriteString(types.ExprString(field.Type) + ",")
				}
			}
		}
		s.WriteString(")")
	}
	return s.String()
}
