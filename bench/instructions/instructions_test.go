package instructions

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
	"github.com/tandem-rpc/tandem/bench/load"
)

var valid = Settings{Systems: []string{"tandem"}, Mode: harness.Shared, Callers: 1, Conns: 1, Rounds: 1, Calls: 1, Timeout: time.Minute}

func TestRunRefusesWhatCannotBeMeant(t *testing.T) {
	for want, change := range map[string]func(*Settings){
		"many times slower": func(s *Settings) { s.Mode = harness.PerCaller },
		"0 systems":         func(s *Settings) { s.Systems = nil },
		"0 callers":         func(s *Settings) { s.Callers = 0 },
		"0 calls":           func(s *Settings) { s.Calls = 0 },
	} {
		s := valid
		change(&s)
		if _, err := Run(t.Context(), s, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

func TestWithoutValgrind(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := Run(t.Context(), valid, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "apt-get install valgrind") {
		t.Errorf("error %v, want how valgrind is installed", err)
	}
}

func TestReadSample(t *testing.T) {
	dir := t.TempDir()
	write := func(side, text string) {
		if err := os.WriteFile(filepath.Join(dir, side+".1"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var s Sample
	if err := s.read(dir, load.Result{Calls: 10}, 1); err == nil || !strings.Contains(err.Error(), "no dump") {
		t.Errorf("error %v, want that a dump is missing", err)
	}
	const ten = "events: Ir\nfn=(1) " + encoding + "\n1 500\nfn=(2) runtime.chanrecv\n1 200\ncfn=(1)\ncalls=10 1\n1 9999\ntotals: 700\n"
	write("server", ten)
	write("client", ten)
	if err := s.read(dir, load.Result{Calls: 10}, 1); err != nil {
		t.Fatal(err)
	}
	if s.EachCall() != 140 || s.Client.Calls != 10 || s.Client.Parts[Coding] != 500 || s.Server.Parts[Scheduling] != 200 || s.Server.Functions[0].Name != encoding {
		t.Errorf("a call of %v instructions, want 140: %+v", s.EachCall(), s)
	}
	for want, made := range map[string]load.Result{
		"saw 10 calls": {Calls: 12},
		"out of order": {Calls: 10, Failures: 1, FirstError: "out of order"},
	} {
		if err := s.read(dir, made, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// side has so many instructions in each of ten calls.
func side(each int64) Side {
	return Side{Calls: 10, Instructions: 10 * each, Parts: map[Part]int64{Coding: 6 * each, Itself: 4 * each}}
}

func TestTables(t *testing.T) {
	r := Report{Settings: Settings{Systems: []string{"tandem", "netrpc", "broken"}, Rounds: 2}}
	for round, n := range []int64{100, 200} { // the second round is slower for both
		r.Samples = append(r.Samples,
			Sample{System: "tandem", Round: round, Server: side(n), Client: side(2 * n)},
			Sample{System: "netrpc", Round: round, Server: side(2 * n), Client: side(4 * n)},
			Sample{System: "broken", Round: round, Error: "no reason"})
	}
	if r.Failed() != 2 {
		t.Errorf("%d samples failed, want 2", r.Failed())
	}
	total, parts := r.total("instructions", Side.EachCall), r.parts()
	if want := []string{"tandem", "150 (100–200)", "300 (200–400)", "450 (300–600)", "0.500 (0.500–0.500)"}; !slices.Equal(total.Rows[0], want) {
		t.Errorf("row %q, want %q", total.Rows[0], want)
	}
	if want := []string{"tandem, both", "270", "0", "0", "0", "0", "0", "180", "0", "0"}; !slices.Equal(parts.Rows[2], want) {
		t.Errorf("row %q, want %q", parts.Rows[2], want)
	}
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil || strings.Contains(b.String(), "in no cache") || !strings.Contains(b.String(), "broken: FAILED: no reason") || !strings.Contains(b.String(), "÷ netrpc") {
		t.Errorf("error %v, the table is\n%s", err, &b)
	}
	r.Settings.Caches = Caches{"1,2,3", "4,5,6"}
	if err := r.WriteTable(&b); err != nil || !strings.Contains(b.String(), "in no cache") || !strings.Contains(b.String(), "1,2,3 and 4,5,6") {
		t.Errorf("error %v, the table with misses is\n%s", err, &b)
	}
}
