package tandem_test

import (
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/tandem-rpc/tandem"

// goleakModule may be used by the tests of every package.
const goleakModule = "go.uber.org/goleak"

// A row is a package, the layer it lives in, and the foreign modules that it
// may import.
type row struct {
	layer   int
	folder  string // "x/..." is everything in a module of its own
	foreign []string
}

// importTable says which packages may import which: a package imports lower layers, and in
// layer 1 also its parent. A package without a row fails the test.
//
// Do not change the table to fix a build. A new row, or a package that moves
// to another layer, is a change of the architecture: it needs a reason, and
// docs/reference/imports.md holds the same table.
var importTable = []row{
	{layer: 0, folder: "."},
	{layer: 0, folder: "internal/buffer"},
	{layer: 0, folder: "internal/estimate"},
	{layer: 0, folder: "internal/estimate/protofields", foreign: []string{"google.golang.org/protobuf"}},

	{layer: 1, folder: "wire"},
	{layer: 1, folder: "codec"},
	{layer: 1, folder: "codec/codectest"},
	{layer: 1, folder: "codec/msgpack", foreign: []string{"github.com/vmihailenco/msgpack/v5"}},
	{layer: 1, folder: "codec/protobuf", foreign: []string{"google.golang.org/protobuf"}},
	{layer: 1, folder: "compress"},
	{layer: 1, folder: "compress/compresstest"},
	{layer: 1, folder: "compress/snappy", foreign: []string{"github.com/klauspost/compress"}},
	{layer: 1, folder: "compress/zstd", foreign: []string{"github.com/klauspost/compress"}},
	{layer: 1, folder: "transport"},
	{layer: 1, folder: "transport/kcp/..."},
	{layer: 1, folder: "transport/nbio/..."},
	{layer: 1, folder: "transport/quic/..."},
	{layer: 1, folder: "transport/websocket", foreign: []string{"github.com/coder/websocket"}},
	{layer: 1, folder: "registry"},
	{layer: 1, folder: "registry/adapter"},
	{layer: 1, folder: "registry/registrytest", foreign: []string{goleakModule}},
	{layer: 1, folder: "balance"},
	{layer: 1, folder: "resilience"},
	{layer: 1, folder: "plugin"},
	{layer: 1, folder: "policy"},
	{layer: 1, folder: "policy/yaml/..."},
	{layer: 1, folder: "internal/budget"},
	{layer: 1, folder: "internal/dispatch"},
	{layer: 1, folder: "internal/housecheck"},
	{layer: 1, folder: "internal/http2", foreign: []string{"golang.org/x/net"}},
	{layer: 1, folder: "internal/kept"},
	{layer: 1, folder: "internal/jsonschema", foreign: []string{"google.golang.org/protobuf"}},
	{layer: 1, folder: "internal/overload"},
	{layer: 1, folder: "internal/settings"},
	{layer: 1, folder: "internal/lazyctx"},
	{layer: 1, folder: "internal/sniff"},
	{layer: 1, folder: "internal/turn"},

	{layer: 2, folder: "registry/dns"},
	{layer: 2, folder: "registry/file"},
	{layer: 2, folder: "registry/consul/..."},
	{layer: 2, folder: "registry/etcd/..."},
	{layer: 2, folder: "registry/kubernetes/..."},
	{layer: 2, folder: "registry/mdns/..."},
	{layer: 2, folder: "registry/nacos/..."},
	{layer: 2, folder: "registry/redis/..."},
	{layer: 2, folder: "registry/zookeeper/..."},
	{layer: 2, folder: "internal/points"},
	{layer: 2, folder: "registry/history"},
	{layer: 2, folder: "internal/machine"},
	{layer: 2, folder: "internal/rules"},
	{layer: 2, folder: "internal/served"},
	{layer: 2, folder: "internal/steer"},
	{layer: 2, folder: "internal/sim"},
	{layer: 2, folder: "internal/multiplex"},
	{layer: 2, folder: "internal/httpcalls"},
	{layer: 2, folder: "internal/http2calls"},

	{layer: 3, folder: "internal/session"},
	{layer: 3, folder: "override"},

	{layer: 4, folder: "internal/call"},

	{layer: 5, folder: "internal/pool"},

	{layer: 6, folder: "internal/failmode"},

	{layer: 7, folder: "client"},
	{layer: 7, folder: "server"},
	{layer: 7, folder: "internal/sim/cmd/sim"},

	{layer: 8, folder: "client/debug"},
	{layer: 8, folder: "internal/scale", foreign: []string{goleakModule}},
	{layer: 8, folder: "tandemtest", foreign: []string{goleakModule}},
	{layer: 8, folder: "transport/tlsfiles"},
	{layer: 8, folder: "transport/transporttest", foreign: []string{goleakModule}},
	{layer: 8, folder: "protocol/protocoltest"},
	{layer: 8, folder: "protocol/netrpc"},
	{layer: 8, folder: "protocol/jsonrpc", foreign: []string{"github.com/coder/websocket"}},
	{layer: 8, folder: "protocol/rpcx"},
	{layer: 8, folder: "protocol/thrift/..."},
	{layer: 8, folder: "protocol/web", foreign: []string{"connectrpc.com/connect", "golang.org/x/net", "google.golang.org/protobuf"}},
	{layer: 8, folder: "admin", foreign: []string{"google.golang.org/protobuf"}},
	{layer: 7, folder: "plugin/auth"},
	{layer: 8, folder: "plugin/authz"},
	{layer: 8, folder: "plugin/metrics"},
	{layer: 8, folder: "plugin/accesslog"},
	{layer: 8, folder: "plugin/trace"},
	{layer: 8, folder: "plugin/alias"},
	{layer: 8, folder: "plugin/iplist"},
	{layer: 8, folder: "plugin/ratelimit", foreign: []string{"golang.org/x/time"}},
	{layer: 8, folder: "plugin/recovery"},
	{layer: 8, folder: "plugin/reglog"},
	{layer: 8, folder: "once"},
	{layer: 8, folder: "bench/message", foreign: []string{"github.com/planetscale/vtprotobuf", "google.golang.org/protobuf"}},

	{layer: 9, folder: "console/..."},
	{layer: 9, folder: "once/oncetest"},
	{layer: 9, folder: "stores/..."},
	{layer: 9, folder: "telemetry"},
	{layer: 9, folder: "telemetry/otel/..."},
	{layer: 9, folder: "telemetry/prom/..."},
	{layer: 9, folder: "grpcbridge/..."},
	{layer: 9, folder: "identity/..."},
	{layer: 9, folder: "stores/..."},
	{layer: 9, folder: "protocol/all", foreign: []string{"connectrpc.com/connect", "github.com/coder/websocket", "google.golang.org/protobuf"}},
	{layer: 9, folder: "protocol/rest/..."},
	{layer: 9, folder: "protocol/triple", foreign: []string{"google.golang.org/protobuf"}},
	{layer: 9, folder: "compat/netrpc"},
	{layer: 9, folder: "internal/interop"},
	{layer: 9, folder: "internal/testcert"},
	{layer: 9, folder: "internal/honestcalls"},
	{layer: 9, folder: "internal/bombtest"},
	{layer: 9, folder: "bench/..."},

	{layer: 10, folder: "cmd/..."},
	{layer: 10, folder: "e2e/..."},

	{layer: 9, folder: "compat/rpcx/plugin"},
	{layer: 10, folder: "compat/netrpc/jsonrpc"},
	{layer: 10, folder: "compat/rpcx"},
	{layer: 11, folder: "compat/rpcx/clientselector"},
	{layer: 12, folder: "compat/rpcx/registries/..."},
	{layer: 13, folder: "examples/..."},
}

// imports are the imports of the Go files of one folder.
type imports struct {
	code  map[string]string // import path to a file that has it
	tests map[string]string
}

func TestImportTable(t *testing.T) {
	for folder, imp := range readImports(t) {
		r := rowOf(folder)
		if r == nil {
			t.Errorf("package %s has no row in the import table", folder)
			continue
		}
		for target, file := range imp.code {
			if why := forbidden(r, folder, target); why != "" {
				t.Errorf("%s imports %s: %s", file, target, why)
			}
		}
		for target, file := range imp.tests {
			if why := forbiddenInTest(r, target); why != "" {
				t.Errorf("%s imports %s: %s", file, target, why)
			}
		}
	}
}

// TestImportTableForbids shows that the rules can fail.
func TestImportTableForbids(t *testing.T) {
	for _, c := range []struct{ folder, target string }{
		{".", module + "/wire"},
		{"wire", module + "/codec"},
		{"codec", module + "/codec/msgpack"},
		{"codec/msgpack", module + "/compress"},
		{"balance", module + "/internal/session"},
		{"client", module + "/server"},
		{"server", module + "/client"},
		{"client", module + "/internal/testcert"},
		{"client", "github.com/klauspost/compress/zstd"},
		{"wire", goleakModule},
		{"bench/load", module + "/internal/session"},
		{"wire", module + "/unheard/of"},
	} {
		if forbidden(rowOf(c.folder), c.folder, c.target) == "" {
			t.Errorf("%s may import %s", c.folder, c.target)
		}
	}
	if rowOf("common") != nil || rowOf("client/common") != nil {
		t.Error("an unknown package has a row")
	}
}

var writeTable = flag.Bool("write-table", false, "write the import table into docs/reference/imports.md")

// TestImportTableIsDocumented checks that docs/reference/imports.md has the table, in its order:
// "go test . -run ImportTable -write-table" writes it there.
func TestImportTableIsDocumented(t *testing.T) {
	const begin, end = "<!-- import table begins -->\n", "<!-- import table ends -->\n"
	text, err := os.ReadFile("docs/reference/imports.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	old, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatal("docs/reference/imports.md lacks the marks of the import table")
	}
	table := documented(importTable)
	switch {
	case old == table:
	case *writeTable:
		err = os.WriteFile("docs/reference/imports.md", []byte(before+begin+table+end+after), 0o644)
	default:
		err = errors.New(`the table in docs/reference/imports.md is stale: run "go test . -run ImportTable -write-table"`)
	}
	if err != nil {
		t.Error(err)
	}
}

// documented returns rows as a table in Markdown.
func documented(rows []row) string {
	table := "| layer | package | foreign modules |\n|---|---|---|\n"
	for _, r := range rows {
		foreign := ""
		if len(r.foreign) > 0 {
			foreign = "`" + strings.Join(r.foreign, "`, `") + "` "
		}
		table += fmt.Sprintf("| %d | `%s` | %s|\n", r.layer, r.folder, foreign)
	}
	return table
}

// TestHelloWorldCompilesNothingForeign checks that a client and a server alone bring
// no other module into a program.
func TestHelloWorldCompilesNothingForeign(t *testing.T) {
	all := readImports(t)
	seen := map[string]bool{}
	queue := []string{"client", "server"}
	for len(queue) > 0 {
		folder := queue[0]
		queue = queue[1:]
		if seen[folder] {
			continue
		}
		seen[folder] = true
		for target, file := range all[folder].code {
			if own, ok := ownFolder(target); ok {
				queue = append(queue, own)
			} else if isForeign(target) {
				t.Errorf("%s brings %s into every program", file, target)
			}
		}
	}
	if !seen["internal/session"] || !seen["."] {
		t.Errorf("client and server compile only %v", seen)
	}
}

// forbidden returns why the package in folder may not import target, or "".
func forbidden(r *row, folder, target string) string {
	nested := strings.HasSuffix(r.folder, "/...")
	if own, ok := ownFolder(target); ok {
		to := rowOf(own)
		switch {
		case to == nil:
			return "no such row in the import table"
		case nested && to == r:
			return ""
		case nested && strings.Contains(target, "/internal/"):
			return "a module of its own uses public packages"
		case to.layer < r.layer, r.layer == 1 && own == path.Dir(folder):
			return ""
		}
		return "layer " + strconv.Itoa(r.layer) + " may not import layer " + strconv.Itoa(to.layer)
	}
	if nested || !isForeign(target) || fromModules(r.foreign, target) {
		return ""
	}
	return "not among the foreign modules of its row"
}

// forbiddenInTest returns why a test may not import target, or "": tests of the core may
// use all of it, but nothing foreign that their package may not.
func forbiddenInTest(r *row, target string) string {
	if strings.HasSuffix(r.folder, "/...") || !isForeign(target) || fromModules(append([]string{goleakModule}, r.foreign...), target) {
		return ""
	}
	return "not among the foreign modules of its row"
}

func fromModules(modules []string, target string) bool {
	return slices.ContainsFunc(modules, func(m string) bool {
		return target == m || strings.HasPrefix(target, m+"/")
	})
}

func ownFolder(target string) (string, bool) {
	if target == module {
		return ".", true
	}
	return strings.CutPrefix(target, module+"/")
}

// isForeign reports whether target is neither ours nor the standard library's.
func isForeign(target string) bool {
	_, own := ownFolder(target)
	first, _, _ := strings.Cut(target, "/")
	return !own && strings.Contains(first, ".")
}

// rowOf returns the first row that fits: a folder's own row comes before its
// module's.
func rowOf(folder string) *row {
	for i := range importTable {
		r := &importTable[i]
		below, isTree := strings.CutSuffix(r.folder, "/...")
		if r.folder == folder || isTree && (folder == below || strings.HasPrefix(folder, below+"/")) {
			return r
		}
	}
	return nil
}

// readImports parses every Go file of the repository, whatever its build
// constraints. It does not ask "go list": the test cache sees the files that a
// test opens, but not those that a command opens.
func readImports(t *testing.T) map[string]imports {
	t.Helper()
	all := map[string]imports{}
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Ext(file) != ".go":
			return nil
		}
		return addImports(all, filepath.ToSlash(file))
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func addImports(all map[string]imports, file string) error {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return err
	}
	folder := path.Dir(file)
	if _, ok := all[folder]; !ok {
		all[folder] = imports{code: map[string]string{}, tests: map[string]string{}}
	}
	to := all[folder].code
	if strings.HasSuffix(file, "_test.go") {
		to = all[folder].tests
	}
	for _, spec := range f.Imports {
		target, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		to[target] = file
	}
	return nil
}
