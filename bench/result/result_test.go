package result

import (
	"bytes"
	"errors"
	"fmt"
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

// repository is the root, where README.md lies.
const repository = "../.."

// TestKeptResultsAreMadeFromTheirFile makes everything that is kept under
// bench/results anew and compares it byte for byte. PNG is left out: a library's
// compression may change while the picture does not.
func TestKeptResultsAreMadeFromTheirFile(t *testing.T) {
	if raceDetector {
		t.Skip("made without the race detector: it has one goroutine, and much to read")
	}
	for _, file := range keptFiles(t) {
		report, err := Load(file)
		if errors.Is(err, ErrOtherKind) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		save(t, dir, report)
		if err := Show(t.Context(), dir, report); err != nil {
			t.Fatal(err)
		}
		compareFolders(t, filepath.Dir(file), dir)
	}
}

// keptFiles are the reports under bench/results.
func keptFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../results/*/" + JSONFile)
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no result is kept: go run ./bench calls -out bench/results/<date>-calls")
	}
	return files
}

func compareFolders(t *testing.T, kept, made string) {
	t.Helper()
	for _, problem := range differences(t, kept, made) {
		t.Errorf("%s: %s; run: go run ./bench report %s", kept, problem, kept)
	}
}

// differences compares the files of two folders.
func differences(t *testing.T, kept, made string) (problems []string) {
	t.Helper()
	names := map[string]bool{}
	for _, dir := range []string{kept, made} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names[e.Name()] = true
		}
	}
	for name := range names {
		was, err := os.ReadFile(filepath.Join(kept, name))
		is, err2 := os.ReadFile(filepath.Join(made, name))
		switch {
		case err != nil || err2 != nil:
			problems = append(problems, fmt.Sprintf("%s is kept or made, not both", name))
		case filepath.Ext(name) != ".png" && !bytes.Equal(was, is):
			problems = append(problems, fmt.Sprintf("%s is not what %s gives", name, JSONFile))
		}
	}
	return problems
}

// TestReadmeShowsTheNewestResult holds README.md's plot, link and figures to the
// newest kept result.
func TestReadmeShowsTheNewestResult(t *testing.T) {
	keptFiles(t)
	folder, report, err := Newest("../results")
	if err != nil {
		t.Fatal(err)
	}
	block, err := Headline(report, "bench/results/"+filepath.Base(folder))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(repository, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if made, err := ReplaceHeadline(string(text), block); err != nil || made != string(text) {
		t.Errorf("README.md does not show the newest result (%v); run: go run ./bench report -readme README.md bench/results/%s", err, filepath.Base(folder))
	}
	for _, file := range []string{MarkdownFile, "throughput-shared.svg"} {
		if !strings.Contains(block, folder[len("../"):]+"/"+file) {
			t.Errorf("the block does not mention %s:\n%s", file, block)
		}
		if _, err := os.Stat(filepath.Join(folder, file)); err != nil {
			t.Error(err)
		}
	}
}

func TestKeepAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "2026-01-31-calls")
	report := sampleReport(1000)
	if err := Keep(t.Context(), dir, report); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"throughput-shared", "throughput-percaller", "cpu-shared", "latency-shared-100", "latency-percaller-1000"} {
		for _, ending := range []string{".svg", ".png"} {
			if info, err := os.Stat(filepath.Join(dir, file+ending)); err != nil || info.Size() < 1000 {
				t.Errorf("no plot %s: %v", file+ending, err)
			}
		}
	}
	for _, path := range []string{dir, filepath.Join(dir, JSONFile)} {
		got, err := Load(path)
		if err != nil || Markdown(got) != Markdown(report) {
			t.Errorf("%s: not what was kept: %v", path, err)
		}
	}
	if problems := differences(t, dir, dir); problems != nil {
		t.Errorf("a folder differs from itself: %v", problems)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, MarkdownFile), []byte("edited"), 0o644); err != nil {
		t.Fatal(err)
	}
	if problems := differences(t, dir, other); len(problems) < 2 {
		t.Errorf("an edited report was not found: %v", problems)
	}
}

func TestLoadRefusesAnotherCommandsResult(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(file, []byte(`{"kind":"conns","samples":{}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file); !errors.Is(err, ErrOtherKind) {
		t.Errorf("error %v, want ErrOtherKind", err)
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
		"- netrpc, shared, 100 callers, round 2 failed: died | suddenly", "| netrpc | example.com/netrpc v1 | set \\| ready |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
}

// A system in Java that could not be built failed in every cell and round; the
// report says so once.
func TestAMissingSystemIsSaidOnce(t *testing.T) {
	r := sampleReport(1000)
	const why = "no Maven\nhere"
	r.Settings.Systems = append(r.Settings.Systems, "motan")
	r.Machine.Java, r.Missing = "openjdk 17", map[string]string{"motan": why}
	for _, cell := range r.Cells() {
		r.Samples = append(r.Samples, harness.Sample{System: "motan", Cell: cell, Error: why})
	}
	text := Markdown(r)
	for _, want := range []string{"| Java | openjdk 17 |", "- motan is missing: no Maven here\n", "at least, after 0s, in Java 0s |", "| motan | – |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q:\n%s", want, text)
		}
	}
	if n := strings.Count(text, "no Maven"); n != 1 {
		t.Errorf("the reason is said %d times", n)
	}
	kept, err := Encode(r)
	if err != nil || !strings.Contains(string(kept), `"motan": "no Maven\nhere"`) {
		t.Errorf("the JSON does not say what is missing (%v)", err)
	}
}

func TestRoundsAreJoined(t *testing.T) {
	first, second := sampleReport(1000), sampleReport(1000)
	second.Settings.First = first.Settings.Rounds
	for i := range second.Samples {
		second.Samples[i].Round += second.Settings.First
	}
	second.Settings.Rates = []int{} // as the command line gives it
	both, err := Join(first, second)
	if err != nil || both.Settings.Rounds != 4 || len(both.Samples) != 2*len(first.Samples) {
		t.Fatalf("%d rounds with %d samples, %v", both.Settings.Rounds, len(both.Samples), err)
	}
	for want, change := range map[string]func(*harness.Report){
		"revision": func(r *harness.Report) { r.Revision = "ba9876543210" },
		"machine":  func(r *harness.Report) { r.Machine.Kernel = "7.0" },
		"settings": func(r *harness.Report) { r.Settings.Duration++ },
		"systems":  func(r *harness.Report) { r.Systems = r.Systems[:1] },
		"missing":  func(r *harness.Report) { r.Missing = map[string]string{"motan": "no Maven"} },
	} {
		other := sampleReport(1000)
		change(other)
		if _, err := Join(first, other); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestEarlier(t *testing.T) {
	dir := t.TempDir()
	report := sampleReport(1000)
	if got, err := Earlier(t.Context(), dir, report.Settings); got != nil || err != nil {
		t.Errorf("an empty folder holds %v, %v", got, err)
	}
	save(t, dir, report)
	if _, err := Earlier(t.Context(), dir, report.Settings); err == nil || !strings.Contains(err.Error(), "not the same revision") {
		t.Errorf("error %v, want that the revision is another", err)
	}
}

// sampleReport has two rounds in both modes; netrpc makes half so many calls
// a second in the first round and so many in the second, tandem twice as many as
// netrpc and the floors three times.
func sampleReport(calls int64) *harness.Report {
	r := &harness.Report{
		Kind: harness.Kind, When: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), Revision: "0123456789ab",
		Machine: harness.Machine{CPU: "a processor", Cores: 2, OS: "linux/amd64", Kernel: "6.1", Go: "go1.26"},
		Settings: harness.Settings{
			Systems: []string{"floor-mux", "floor-plain", "netrpc", "tandem"}, Modes: []harness.Mode{harness.Shared, harness.PerCaller},
			Callers: []int{100, 1000}, Deployments: []harness.Deployment{harness.Same}, Conns: 2, Rounds: 2, Duration: time.Second, Baselines: []string{"netrpc"},
		},
		Topology: []string{"same: one machine"},
		Systems:  []harness.System{{Name: "tandem", Settings: "defaults"}, {Name: "netrpc", Settings: "set | ready", Modules: []string{"example.com/netrpc v1"}}},
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
