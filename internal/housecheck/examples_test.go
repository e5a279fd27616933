//go:build !race

package housecheck

import (
	"go/ast"
	"go/doc"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// concept is an exported name that a reader may look up.
type concept struct {
	where string
	any   []string // an example must use one of these, as uses names them
}

// TestEveryConceptHasAnExample requires, for the packages that users import, an example for
// every exported function, type, method and variable, and for one constant of each group. An
// example is what go/doc recognizes as one, and it must run: it has an Output comment.
//
// The rule compares names only. A function counts as shown if it is selected from its package
// (client.Dial), a method if a method of that name is called on any value, or is declared by a
// type of the example.
func TestEveryConceptHasAnExample(t *testing.T) {
	sources := goFiles(t)
	shown := uses(sources)
	found := map[string]int{}
	for _, s := range sources {
		if !slices.Contains([]string{".", "client", "plugin", "server"}, s.folder()) {
			continue
		}
		for _, c := range concepts(s) {
			found[s.folder()]++
			if !shown.some(c.any) {
				t.Errorf("%s is in no example with an Output", c.where)
			}
		}
	}
	if len(found) != 4 {
		t.Errorf("exported concepts by package: %v: the test does not look", found)
	}
}

// TestMissingExampleIsFound shows that TestEveryConceptHasAnExample can fail.
func TestMissingExampleIsFound(t *testing.T) {
	const api = `package api
const ( Small = 1; Large = 2 )
var ErrFull error
type Option func()
type Codec interface { Encode() }
type Box[T any] struct{}
func Open() {}
func (*Box[T]) Put() {}
func (Box[T]) String() string { return "" }
func (box) Hidden() {}
type box struct{}
func open() {}
`
	for what, c := range map[string]struct {
		example string
		missing []string
	}{
		"nothing is shown": {
			`func TestOpen() { api.Open() }`,
			[]string{"Small", "ErrFull", "Option", "Codec", "Codec.Encode", "Box", "Open", "Box.Put"},
		},
		"an example that does not run": {
			`func ExampleOpen() { api.Open() }`,
			[]string{"Small", "ErrFull", "Option", "Codec", "Codec.Encode", "Box", "Open", "Box.Put"},
		},
		"names of other packages, and methods that are not called": {
			`func ExampleOpen() {
	other.Open()
	other.Encode()
	_ = box.Put
	// Output:
}`,
			[]string{"Small", "ErrFull", "Option", "Codec", "Codec.Encode", "Box", "Open", "Box.Put"},
		},
		"a function's helpers are not part of the example": {
			`func ExampleOpen() {
	open()
	// Output:
}
func ExampleBox() {
	var b api.Box[int]
	b.Put()
	// Output:
}
func open() { api.Open() }`,
			[]string{"Small", "ErrFull", "Option", "Codec", "Codec.Encode", "Open"},
		},
		"a file with one example is all shown": {
			`type codec struct{}
func (codec) Encode() {}
func ExampleOpen() {
	_ = []any{api.Large, api.ErrFull, api.Option(nil), api.Codec(codec{})}
	api.Open()
	new(api.Box[int]).Put()
	// Output: done
}`,
			nil,
		},
	} {
		var missing []string
		shown := uses(sample(t, "other/a_test.go", "package other_test\nimport (\"example.com/api\"; \"example.com/other\")\n"+c.example))
		for _, concept := range concepts(sample(t, "api/api.go", api)[0]) {
			if !shown.some(concept.any) {
				_, name, _ := strings.Cut(concept.where, ": ")
				missing = append(missing, name)
			}
		}
		if !slices.Equal(missing, c.missing) {
			t.Errorf("%s: missing %q, want %q", what, missing, c.missing)
		}
	}
}

func sample(t *testing.T, name, text string) []*source {
	t.Helper()
	s, err := parse(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return []*source{s}
}

// used has the names that examples use: "client.Dial" of packages, ".Close" of values.
type used map[string]bool

func (u used) some(names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return u[name] })
}

// uses returns the names in the examples as the documentation shows them: the function's body,
// or the whole file if it has nothing else.
func uses(sources []*source) used {
	all := used{}
	for _, s := range sources {
		if !s.test || s.nested() {
			continue
		}
		for _, e := range doc.Examples(s.file) {
			if e.Output != "" || e.EmptyOutput {
				all.add(e.Code, s.imported())
			}
		}
	}
	return all
}

func (u used) add(code ast.Node, packages map[string]bool) {
	ast.Inspect(code, func(n ast.Node) bool {
		switch v := n.(type) {
		case *ast.SelectorExpr:
			if id, ok := v.X.(*ast.Ident); ok && packages[id.Name] {
				u[id.Name+"."+v.Sel.Name] = true
			}
		case *ast.CallExpr:
			if sel, ok := v.Fun.(*ast.SelectorExpr); ok && !isPackage(sel.X, packages) {
				u["."+sel.Sel.Name] = true
			}
		case *ast.FuncDecl:
			if v.Recv != nil {
				u["."+v.Name.Name] = true
			}
		}
		return true
	})
}

func isPackage(x ast.Expr, packages map[string]bool) bool {
	id, ok := x.(*ast.Ident)
	return ok && packages[id.Name]
}

// imported returns the names of the packages that the file imports.
func (s *source) imported() map[string]bool {
	names := map[string]bool{}
	for _, spec := range s.file.Imports {
		if spec.Name != nil {
			names[spec.Name.Name] = true
			continue
		}
		names[path.Base(strings.Trim(spec.Path.Value, `"`))] = true
	}
	return names
}

// concepts returns what the file exports.
func concepts(s *source) (all []concept) {
	if s.test {
		return nil
	}
	for _, decl := range s.file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				all = append(all, s.topLevel(d.Name)...)
			} else if exportedReceiver(d) {
				all = append(all, s.method(receiver(d), d.Name)...)
			}
		case *ast.GenDecl:
			all = append(all, declared(s, d)...)
		}
	}
	return all
}

func declared(s *source, d *ast.GenDecl) (all []concept) {
	for _, spec := range d.Specs {
		switch v := spec.(type) {
		case *ast.TypeSpec:
			all = append(all, s.topLevel(v.Name)...)
			if face, ok := v.Type.(*ast.InterfaceType); ok && v.Name.IsExported() {
				for _, m := range face.Methods.List {
					all = append(all, s.method(v.Name.Name, m.Names...)...)
				}
			}
		case *ast.ValueSpec:
			all = append(all, s.topLevel(v.Names...)...)
		}
	}
	if d.Tok == token.CONST && len(all) > 0 {
		for _, c := range all[1:] {
			all[0].any = append(all[0].any, c.any...)
		}
		return all[:1]
	}
	return all
}

func (s *source) topLevel(names ...*ast.Ident) (all []concept) {
	for _, name := range names {
		if name.IsExported() {
			all = append(all, concept{s.at(name, "%s", name), []string{s.file.Name.Name + "." + name.Name}})
		}
	}
	return all
}

// method leaves out methods of the standard library's interfaces, which are called through
// packages fmt and errors.
func (s *source) method(of string, names ...*ast.Ident) (all []concept) {
	for _, name := range names {
		if name.IsExported() && !slices.Contains([]string{"Error", "Is", "String", "Unwrap"}, name.Name) {
			all = append(all, concept{s.at(name, "%s.%s", of, name), []string{"." + name.Name}})
		}
	}
	return all
}

// receiver returns the name of the type that a method belongs to.
func receiver(d *ast.FuncDecl) (name string) {
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return name == "" // the type's name comes before its parameters
	})
	return name
}
