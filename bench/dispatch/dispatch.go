// Package dispatch measures what it costs to call a service's method: the cells
// of LittleRpc's document, tandem's typed handlers and its registered services,
// each with the compiler's inlining and without.
package dispatch

import (
	"fmt"

	"github.com/tandem-rpc/tandem/bench/figures"
	"github.com/tandem-rpc/tandem/bench/micro"
)

// builds are the two ways to compile. The document's figures are of the second.
var builds = []struct {
	prefix, text string
	flags        []string
}{
	{"", "inlining", nil},
	{"-l/", "-gcflags=-l", []string{"-gcflags=-l"}},
}

// Sources have the benchmarks. They stand beside the dispatcher, which is
// internal; what they measure is said there.
func Sources() []micro.Source {
	var all []micro.Source
	for _, b := range builds {
		all = append(all, &micro.TestBinary{
			Package: "github.com/tandem-rpc/tandem/internal/dispatch",
			Pattern: "^Benchmark(Call|Dispatch|TypedUnguarded)$",
			Flags:   b.flags,
			Prefix:  b.prefix,
		})
	}
	return all
}

// documentCells are the five of LittleRpc's document, with its ns, measured
// with -gcflags=-l.
var documentCells = []struct {
	name, text string
	ns         float64
}{
	{"ReflectCall", "reflection: reflect.Value.Call", 406.6},
	{"MethodValueCall", "method value, found by reflection", 194.1},
	{"AnonymousFunctionCall", "method value, known when compiling", 2.114},
	{"UnsafeCall", "the method's code by its address", 1.205},
	{"FunctionCall", "direct", 0.9373},
}

// methods are what tandem can serve, and the direct call beside.
var methods = []struct{ name, text string }{
	{direct, "direct call of the handler, with new arguments"},
	{typed, "typed handler: func(ctx, *Args) (*Reply, error)"},
	{"TypedUnguarded", "the same without the guard against panics"},
	{"Dispatch/NetRPC", "service, net/rpc's: func(*Args, *Reply) error"},
	{"Dispatch/NetRPCContext", "service: func(ctx, *Args, *Reply) error"},
	{"Dispatch/Pointers", "service: func(ctx, *Args) (*Reply, error)"},
	{"Dispatch/Five", "service: five arguments, three results and an error"},
	{"Dispatch/Hijacked", "service: a method with a hijacker"},
}

const (
	direct = "Dispatch/Direct"
	typed  = "Dispatch/Typed"
)

// Tables has the document's cells and a table for each build.
func Tables(r micro.Results) []figures.Table {
	tables := []figures.Table{languageTable(r)}
	for _, b := range builds {
		t := figures.Table{
			Title: "tandem, " + b.text + ": from the table's entry to the method and back, with a codec that does nothing",
			Heads: []string{"method", "ns/op", "ns beyond direct", "B/op", "allocs/op"},
		}
		for _, m := range methods {
			s := r.Median(b.prefix + m.name)
			beyond := r.Difference(b.prefix+m.name, b.prefix+direct)
			t.Rows = append(t.Rows, []string{m.text, figures.Number(s.NS), beyond.String(), figures.Number(s.Bytes), figures.Number(s.Allocs)})
		}
		t.Notes = []string{verdict(r, b.prefix)}
		tables = append(tables, t)
	}
	return tables
}

// languageTable is what Go itself takes.
func languageTable(r micro.Results) figures.Table {
	t := figures.Table{
		Title: "ns to call a method of five arguments and three results, in Go itself",
		Heads: []string{"call", "document (i7-12700H, Windows, -gcflags=-l)"},
	}
	for _, b := range builds {
		t.Heads = append(t.Heads, "here, "+b.text)
	}
	for _, c := range documentCells {
		row := []string{c.text, fmt.Sprint(c.ns)}
		for _, b := range builds {
			row = append(row, r.Times(b.prefix+"Call/"+c.name).String())
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// most is what a typed handler may take beyond the direct call and the
// allocation of its arguments, in ns.
const most = 10

func verdict(r micro.Results, prefix string) string {
	word, beyond := "within", r.Difference(prefix+typed, prefix+direct)
	if beyond.Median > most {
		word = "MISSED"
	}
	return fmt.Sprintf("%s %d ns: the typed handler takes %s beyond the direct call and its arguments' allocation", word, most, beyond)
}
