package revisions

import (
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/bench/micro"
)

const output = `goos: linux
pkg: github.com/tandem-rpc/tandem/a
BenchmarkOne/x-2  	 100	 20.0 ns/op	 600 bytes	 8 B/op	 1 allocs/op
BenchmarkTwo-2    	 100	 1000 ns/op
PASS
pkg: github.com/tandem-rpc/tandem/b
BenchmarkOne/x-2  	 100	 5 ns/op	 0 B/op	 0 allocs/op
PASS
pkg: github.com/tandem-rpc/tandem/a
BenchmarkOne/x-2  	 100	 10.0 ns/op	 600 bytes	 16 B/op	 2 allocs/op
BenchmarkTwo-2    	 100	 3000 ns/op
BenchmarkNone-2   	 1	 0 ns/op
BenchmarkOne logs something
PASS
`

func read(t *testing.T, text string) micro.Results {
	t.Helper()
	runs, err := Read(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

func TestRead(t *testing.T) {
	runs := read(t, output)
	for name, want := range (micro.Results{
		"github.com/tandem-rpc/tandem/a One/x-2": {{NS: 20, Bytes: 8, Allocs: 1}, {NS: 10, Bytes: 16, Allocs: 2}},
		"github.com/tandem-rpc/tandem/a Two-2":   {{NS: 1000}, {NS: 3000}},
		"github.com/tandem-rpc/tandem/b One/x-2": {{NS: 5}},
	}) {
		if !reflect.DeepEqual(runs[name], want) {
			t.Errorf("%s: %v, want %v", name, runs[name], want)
		}
	}
	if len(runs) != 3 {
		t.Errorf("%d benchmarks, want 3: %v", len(runs), runs)
	}
	if _, err := Read(strings.NewReader("PASS\n")); err == nil {
		t.Error("an output without benchmarks was accepted")
	}
}

func TestJudge(t *testing.T) {
	older := micro.Results{"a One": {{NS: 100, Allocs: 2}}, "a Two": {{NS: 100, Allocs: 2}}, "gone": {{NS: 1, Allocs: 1}}}
	for _, tt := range []struct {
		name  string
		newer micro.Results
		want  string // in the error; empty for none
	}{
		{"equal", older, ""},
		{"one faster, one slower", micro.Results{"a One": {{NS: 50, Allocs: 2}}, "a Two": {{NS: 200, Allocs: 2}}}, ""},
		{"4 % slower", micro.Results{"a One": {{NS: 104, Allocs: 2}}, "a Two": {{NS: 104, Allocs: 2}}}, ""},
		{"6 % slower", micro.Results{"a One": {{NS: 106, Allocs: 2}}, "a Two": {{NS: 106, Allocs: 2}}}, "6.0 % worse"},
		{"one much slower", micro.Results{"a One": {{NS: 121, Allocs: 2}}, "a Two": {{NS: 100, Allocs: 2}}}, "10.0 % worse"},
		{"faster, but allocates", micro.Results{"a One": {{NS: 10, Allocs: 3}}, "a Two": {{NS: 10, Allocs: 2}}}, "a One has 3 allocations a call, 2 before"},
		{"nothing in common", micro.Results{"new": {{NS: 1, Allocs: 1}}}, "no benchmark in common"},
	} {
		err := Compare(older, tt.newer).Judge(0.05)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: error %v, want %q in it", tt.name, err, tt.want)
		}
	}
}

// The machine was slow in three rounds, and in one of them the benchmark alone on
// its processor; the ratio is still 1.1, not that of the medians or of the least.
func TestRatiosAreTakenInPairs(t *testing.T) {
	r := Row{"a", samples(100, 900, 900, 900, 100), samples(110, 990, 50, 990, 110)}
	if got := r.Ratio(); math.Abs(got-1.1) > 1e-9 {
		t.Errorf("got %v, want 1.1", got)
	}
	r.New = r.New[:1]
	if got := r.Ratio(); math.Abs(got-1.1) > 1e-9 {
		t.Errorf("one pair: got %v, want 1.1", got)
	}
}

// The least of all runs counts: what else happens in the process only adds.
func TestTheLeastAllocationsCount(t *testing.T) {
	if got := allocs([]micro.Sample{{Allocs: 4}, {Allocs: 2}, {Allocs: 3}}); got != 2 {
		t.Errorf("got %v, want 2", got)
	}
}

func samples(ns ...float64) (all []micro.Sample) {
	for _, v := range ns {
		all = append(all, micro.Sample{NS: v})
	}
	return all
}

func TestWrite(t *testing.T) {
	older := micro.Results{rootModule + "/a One": {{NS: 100, Allocs: 2}}, rootModule + "/a Two": {{NS: 100, Allocs: 2}}, rootModule + "/b One": {{NS: 100}}, "gone": {{NS: 1, Allocs: 1}}}
	newer := micro.Results{rootModule + "/a One": {{NS: 400, Allocs: 2}}, rootModule + "/a Two": {{NS: 100, Allocs: 2}}, rootModule + "/b One": {{NS: 800}}}
	var b strings.Builder
	c := Compare(older, newer)
	if err := c.Write(&b); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{"a One 100 400 4.000 2 2", "a geomean 2.000", "b geomean 8.000", "all geomean 3.175", "gone at one revision only"} {
		if !strings.Contains(text, want) {
			t.Errorf("the table lacks %q:\n%s", want, b.String())
		}
	}
	if want := math.Cbrt(4 * 1 * 8); math.Abs(c.Geomean()-want) > 1e-9 {
		t.Errorf("geomean %v, want %v", c.Geomean(), want)
	}
}

// TestRun compares a small package with itself, makes its benchmark slower and
// compares again, and then breaks its budget.
func TestRun(t *testing.T) {
	root := newRepository(t)
	if err := compareOnce(t, root, "a"); err != nil {
		t.Errorf("compared with itself: %v", err)
	}
	if err := compareOnce(t, root, "a", "absent"); err == nil || !strings.Contains(err.Error(), "no such package") {
		t.Errorf("a package that is nowhere: error %v", err)
	}
	write(t, root, "young/a.go", strings.Replace(code, "package a", "package young", 1))
	write(t, root, "young/a_test.go", strings.Replace(test, "package a", "package young", 1))
	write(t, root, "a/a.go", strings.Replace(code, "const rounds = 1000", "const rounds = 10000", 1))
	if err := compareOnce(t, root, "a", "young"); err == nil || !strings.Contains(err.Error(), "% worse") {
		t.Errorf("ten times as slow: error %v", err)
	}
	write(t, root, "a/a.go", strings.Replace(code, "var sink []byte", "var sink = make([]byte, 1)", 1))
	if err := compareOnce(t, root, "a"); err == nil || !strings.Contains(err.Error(), "an allocation budget of a") {
		t.Errorf("over budget: error %v", err)
	}
	if out := git(t, root, "worktree", "list"); strings.Count(out, "\n") != 1 {
		t.Errorf("a worktree is left behind:\n%s", out)
	}
}

// compareOnce judges with a wide limit: a laden machine must not fail the test.
func compareOnce(t *testing.T, root string, packages ...string) error {
	t.Helper()
	s := Settings{Base: "HEAD", Packages: packages, Bench: ".", Skip: "^$", Count: 4, Time: "200x", Budgets: "Alloc", Out: t.TempDir()}
	if err := runIn(t.Context(), root, s, t.Output()); err != nil {
		return err
	}
	older, err := ReadFile(filepath.Join(s.Out, OldFile))
	if err != nil {
		return err
	}
	newer, err := ReadFile(filepath.Join(s.Out, NewFile))
	if err != nil {
		return err
	}
	return Compare(older, newer).Judge(2)
}

const code = `package a

const rounds = 1000

var sink []byte

func work() (n uint32) {
	for i := range uint32(rounds) {
		n = n*31 + i
	}
	return n
}
`

const test = `package a

import "testing"

var kept uint32

func BenchmarkWork(b *testing.B) {
	for b.Loop() {
		kept += work()
	}
}

func TestAlloc(t *testing.T) {
	if sink != nil {
		t.Error("over budget")
	}
}
`

// newRepository is a module in a git repository of its own.
func newRepository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write(t, root, "go.mod", "module example.com/small\n\ngo 1.26\n")
	write(t, root, "a/a.go", code)
	write(t, root, "a/a_test.go", test)
	git(t, root, "init", "-q")
	git(t, root, "add", ".")
	git(t, root, "-c", "user.name=Test", "-c", "user.email=test@example.com", "commit", "-q", "-m", "Small")
	return root
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, root string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}
