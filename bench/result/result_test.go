package result

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/bench/harness"
	"github.com/tandem-rpc/tandem/bench/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// repository is the root, with README.md.
const repository = "../.."

// TestKeptResultsAreMadeFromTheirFile makes everything in bench/results again and compares
// it byte for byte. It has less than 3 MiB.
func TestKeptResultsAreMadeFromTheirFile(t *testing.T) {
	folders, err := filepath.Glob("../results/*")
	if err != nil || len(folders) == 0 {
		t.Fatalf("no result is kept (%v): make bench-keep KIND=levels", err)
	}
	size := 0
	for _, folder := range folders {
		report, err := Load(folder)
		if err != nil {
			t.Fatal(err)
		}
		made := t.TempDir()
		if err := Keep(made, report); err != nil {
			t.Fatal(err)
		}
		for _, problem := range differences(t, folder, made) {
			t.Errorf("%s: %s; run: go run ./bench report %s", folder, problem, folder)
		}
		for _, text := range files(t, folder) {
			size += len(text)
		}
	}
	if size >= 3<<20 {
		t.Errorf("the kept results have %d bytes, 3 MiB or more", size)
	}
}

// differences compares the files of two folders.
func differences(t *testing.T, kept, made string) (problems []string) {
	t.Helper()
	was, is := files(t, kept), files(t, made)
	for name := range was {
		if is[name] != was[name] {
			problems = append(problems, name+" is not what "+JSONFile+" gives")
		}
	}
	for name := range is {
		if _, ok := was[name]; !ok {
			problems = append(problems, name+" is not kept")
		}
	}
	return problems
}

// files returns the contents of a folder's files by their names.
func files(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

// TestReadmeShowsTheKeptLevels compares README.md's plot, link and figures with the kept
// result.
func TestReadmeShowsTheKeptLevels(t *testing.T) {
	const folder = "bench/results/levels"
	report, err := Load(filepath.Join(repository, folder))
	if err != nil {
		t.Fatal(err)
	}
	block, err := Headline(report, folder)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if made, err := ReplaceHeadline(string(text), block); err != nil || made != string(text) {
		t.Errorf("README.md does not show the kept result (%v); run: go run ./bench report -readme README.md %s", err, folder)
	}
	for _, file := range []string{MarkdownFile, "throughput-shared.svg"} {
		if !strings.Contains(block, folder+"/"+file) {
			t.Errorf("the block does not mention %s:\n%s", file, block)
		}
		if _, err := os.Stat(filepath.Join(repository, folder, file)); err != nil {
			t.Error(err)
		}
	}
}

// A kept result replaces the one before, with its plots.
func TestKeepAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "calls")
	report := sampleReport(1000)
	report.Samples[1].Error, report.Samples[2].Client.FirstError, report.Samples[2].Client.Failures = "died", "no room", 7
	report.Samples = append(report.Samples, harness.Sample{System: "drpc", Cell: report.Cells()[0], Unsupported: "alone"})
	for range 2 {
		if err := Keep(dir, report); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "old.svg"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := Keep(dir, report); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"throughput-shared", "throughput-percaller", "cpu-shared", "p99-shared", "p99-percaller"} {
		if info, err := os.Stat(filepath.Join(dir, file+".svg")); err != nil || info.Size() < 1000 {
			t.Errorf("no plot %s: %v", file, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "old.svg")); err == nil {
		t.Error("a plot of the result before is still there")
	}
	for _, path := range []string{dir, filepath.Join(dir, JSONFile)} {
		got, err := Load(path)
		if err != nil || Markdown(got) != Markdown(report) {
			t.Errorf("%s: not what was kept: %v", path, err)
		}
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, MarkdownFile), []byte("edited"), 0o644); err != nil {
		t.Fatal(err)
	}
	if problems := differences(t, dir, other); len(problems) < 2 || differences(t, dir, dir) != nil {
		t.Errorf("an edited report was not found: %v", problems)
	}
}

func TestLoadRefusesWhatIsNoReport(t *testing.T) {
	for want, text := range map[string]string{"no report of calls": `{"kind":"conns","samples":[]}`, "unexpected end": "{"} {
		file := filepath.Join(t.TempDir(), "x.json")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(file); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestMarkdownSaysUnderWhichConditions(t *testing.T) {
	r := sampleReport(1000)
	r.Samples = append(r.Samples, harness.Sample{System: "netrpc", Cell: r.Cells()[0], Round: 1, Error: "died |\nsuddenly"})
	text := Markdown(r)
	for _, want := range []string{
		"2026-01-31 12:00 UTC", "| revision | 0123456789ab |", "a processor, 2 cores", "kernel 6.1", "| Go | go1.26 |", "| topology | same: one machine; a process each",
		"| shared mode | 2 connections |", "![Calls a second, 2 shared connections](throughput-shared.svg)",
		"## shared, 100 callers", "| tandem | 1500 (1000–2000) |", "calls/s ÷ netrpc", "| tandem | 2.00 (2.00–2.00) |",
		"- round 2: netrpc shared, 100 callers: FAILED: died | suddenly",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

// sampleReport has two rounds in both modes. netrpc makes half as many calls a second in the
// first round as in the second, tandem twice as many as netrpc, and the floors three times as
// many.
func sampleReport(calls int64) *harness.Report {
	r := &harness.Report{
		Kind: harness.Kind, When: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Revision: "0123456789ab",
		Machine: harness.Machine{CPU: "a processor", Cores: 2, OS: "linux/amd64", Kernel: "6.1", Go: "go1.26"},
		Settings: harness.Settings{
			Systems: []string{"floor-mux", "floor-plain", "netrpc", "tandem"}, Modes: []harness.Mode{harness.Shared, harness.PerCaller},
			Callers: []int{100, 1000}, Deployments: []harness.Deployment{harness.Same}, Conns: 2, Rounds: 2, Duration: time.Second, Baselines: []string{"netrpc"},
		},
		Topology: []string{"same: one machine"},
	}
	for round := range 2 {
		for _, cell := range r.Cells() {
			for system, factor := range map[string]int64{"floor-mux": 3, "floor-plain": 3, "netrpc": 1, "tandem": 2} {
				r.Samples = append(r.Samples, sample(system, cell, round, factor*calls/2*int64(round+1)))
			}
		}
	}
	return r
}

func sample(system string, cell harness.Cell, round int, calls int64) harness.Sample {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	used := load.Usage{Wall: time.Second, CPU: time.Second}
	return harness.Sample{
		System: system, Cell: cell, Round: round, Server: used,
		Client: load.Result{Calls: calls, Usage: used, Latency: load.Latency{P50: us(10), P90: us(20), P99: us(50), P999: us(100), P9999: us(900)}},
	}
}
