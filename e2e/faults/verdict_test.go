package main

import (
	"path/filepath"
	"testing"
	"time"
)

func TestSummarize(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(s int) int64 { return start.Add(time.Duration(s) * time.Second).UnixNano() }
	entries := []entry{
		{ID: 1, Variant: "failfast", At: at(0), Took: 10, Code: codeOK},
		{ID: 2, Variant: "failfast", At: at(1), Took: 30, Code: codeOK},                           // ran twice, which is an error
		{ID: 3, Variant: "failover+safe", At: at(2), Took: 20, Code: codeOK},                      // ran twice, which is allowed
		{ID: 4, Variant: "failfast", At: at(3), Took: 40, Code: codeOK},                           // never ran
		{ID: 5, Variant: "failfast", At: at(4), Took: 50, Code: "unavailable", NotExecuted: true}, // ran, which is an error
		{ID: 6, Variant: "failfast", At: at(5), Took: 60, Code: "unavailable", NotExecuted: true}, // did not run
		{ID: 7, Variant: "failfast", At: at(6), Took: 70, Code: "deadline exceeded"},              // ran
		{ID: 8, Variant: variantUpload, At: at(7), Took: 80, Code: "deadline exceeded"},           // not accepted by keep
	}
	once := []execution{{}}
	ran := executions{1: once, 2: {{}, {}}, 3: {{}, {}}, 5: once, 7: once}
	s := summarize(entries, ran, isSmall)
	if s.Made != 7 || s.OK != 4 || s.Failed != 3 {
		t.Errorf("made %d, ok %d, failed %d, want 7, 4, 3", s.Made, s.OK, s.Failed)
	}
	if s.Doubles != 1 || s.Lost != 1 || s.Contradictions != 1 {
		t.Errorf("doubles %d, lost %d, contradictions %d, want 1 of each", s.Doubles, s.Lost, s.Contradictions)
	}
	if s.P50 != 20 || s.P99 != 40 || s.Max != 40 {
		t.Errorf("p50 %v, p99 %v, max %v, want 20, 40 and 40 ns", s.P50, s.P99, s.Max)
	}
	if !s.First.Equal(start.Add(4*time.Second)) || !s.Last.Equal(start.Add(6*time.Second)) {
		t.Errorf("first failure %v, last %v", s.First, s.Last)
	}
	if got, want := s.codes(), "2 unavailable, 1 deadline exceeded"; got != want {
		t.Errorf("codes %q, want %q", got, want)
	}
}

func TestJournalsComeBack(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "server0.txt")
	j, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []uint64{0, 7, 7, 9} {
		j.executed(id)
	}
	if _, err := j.f.WriteString("12 "); err != nil { // the process is killed while it writes a line
		t.Fatal(err)
	}
	if err := j.f.Close(); err != nil {
		t.Fatal(err)
	}
	ran := executions{}
	if err := readExecutions(path, 2, ran); err != nil {
		t.Fatal(err)
	}
	if len(ran) != 2 || len(ran[7]) != 2 || len(ran[9]) != 1 || ran[9][0].server != 2 {
		t.Errorf("executions %v, want 7 twice and 9 once, by server 2", ran)
	}

	want := []entry{{ID: 3, Variant: "default", At: 5, Took: 6, Code: "unavailable", NotExecuted: true, Message: "no"}, {ID: 4, Code: codeOK}}
	path = filepath.Join(dir, "client.jsonl")
	if err := writeEntries(path, want); err != nil {
		t.Fatal(err)
	}
	got, err := readEntries(path)
	if err != nil || len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("entries %v (%v), want %v", got, err, want)
	}
}

// result returns an outcome with one arm of tandem that has the given journal.
func result(began time.Time, entries ...entry) *outcome {
	a := &armResult{arm: arm{System: sysTandem, CC: "cubic"}, start: time.Unix(0, 0), began: began, ended: began.Add(time.Minute), entries: entries, ran: executions{}, proof: []string{"process in state T"}}
	return &outcome{cell: cell{Load: plan{Deadline: 10 * time.Second, Rate: 1, Duration: time.Second}}, arms: []*armResult{a}}
}

func TestBarsOfLongFaults(t *testing.T) {
	fault := time.Unix(1000, 0)
	failed := func(variant string, after, took time.Duration) entry {
		return entry{ID: 1, Variant: variant, At: fault.Add(after).UnixNano(), Took: int64(took), Code: "unavailable"}
	}
	for name, c := range map[string]struct {
		entry entry
		want  bool
	}{
		"idempotent":            {failed("failover+safe", 0, 10*time.Second), false},
		"sent before suspicion": {failed("failfast", time.Second, 10*time.Second), true},
		"too early":             {failed("failfast", time.Second, 9*time.Second), false},
		"sent after suspicion":  {failed("failfast", 3*time.Second, 10*time.Second), false},
	} {
		later := entry{ID: 2, Variant: "failfast", At: fault.Add(61 * time.Second).UnixNano(), Code: codeOK}
		o := result(fault, c.entry, later)
		o.arms[0].ran[2] = []execution{{}}
		o.checks = movedOrWaited(o)
		if o.ok() != c.want {
			t.Errorf("%s: %v, want %v: %+v", name, o.ok(), c.want, o.checks)
		}
		o.arms[0].entries = []entry{later}
		if o.checks = movedOrWaited(o); o.ok() {
			t.Errorf("%s: passes although the fault affected no call", name)
		}
		o.arms[0].entries = []entry{c.entry, later}
		delete(o.arms[0].ran, 2)
		if o.checks = movedOrWaited(o); o.ok() {
			t.Errorf("%s: passes although the server runs no calls after the fault", name)
		}
	}
}

func TestBarsOfTheOnlyServer(t *testing.T) {
	fault := time.Unix(1000, 0)
	var entries []entry
	for i := range 200 { // 61 s after the fault began, 1 s after it ended
		entries = append(entries, entry{ID: uint64(i + 1), Variant: "failfast", At: fault.Add(61 * time.Second).UnixNano(), Code: codeOK})
	}
	o := result(fault, entries...)
	if o.checks = noneFailedEarly(o); !o.ok() {
		t.Errorf("all calls succeed: %+v", o.checks)
	}
	entries[7].Code, entries[7].Took = "deadline exceeded", int64(10*time.Second)
	if o.checks = noneFailedEarly(o); o.ok() {
		t.Error("passes although a call fails that began after the fault")
	}
	o = result(fault, entries[:5]...)
	if o.checks = noneFailedEarly(o); o.ok() {
		t.Error("passes without calls after the fault")
	}
}

func TestGeneralBars(t *testing.T) {
	good := entry{ID: 1, Variant: "failfast", Code: codeOK}
	twice := executions{1: {{}, {}}}
	for name, c := range map[string]struct {
		entries []entry
		ran     executions
		want    bool
	}{
		"good":          {[]entry{good}, executions{1: {{}}}, true},
		"no calls":      {nil, nil, true}, // the floor of 0.9 calls is 0
		"lost":          {[]entry{good}, nil, false},
		"twice":         {[]entry{good}, twice, false},
		"hangs":         {[]entry{{ID: 1, Code: codeOK, Took: int64(13 * time.Second)}}, executions{1: {{}}}, false},
		"uncalled":      {[]entry{good}, executions{1: {{}}, 2: {{}}}, false},
		"contradiction": {[]entry{{ID: 1, Code: "unavailable", NotExecuted: true}}, executions{1: {{}}}, false},
	} {
		o := result(time.Time{}, c.entries...)
		o.arms[0].ran = c.ran
		o.checks = generalChecks(o.cell, o.arms[0])
		if o.ok() != c.want {
			t.Errorf("%s: %v, want %v: %+v", name, o.ok(), c.want, o.checks)
		}
	}
	o := result(time.Time{})
	o.cell.Load.Rate = 100
	if o.checks = generalChecks(o.cell, o.arms[0]); o.ok() {
		t.Error("an arm without calls passes")
	}
	o = result(time.Time{}, good)
	o.arms[0].ran, o.arms[0].proof = executions{1: {{}}}, nil
	if o.checks = generalChecks(o.cell, o.arms[0]); o.ok() {
		t.Error("an arm passes without proof that its fault had an effect")
	}
	o = result(time.Unix(9, 0), good)
	o.arms[0].ran = executions{1: {{at: time.Unix(1, 0), server: 1}}}
	o.cell.At, o.cell.Instances = time.Second, 2
	if o.checks = generalChecks(o.cell, o.arms[0]); o.ok() {
		t.Error("an arm passes although the server that breaks ran no calls before")
	}
	o = result(time.Time{}, good)
	o.arms[0].ran, o.arms[0].fresh = executions{1: {{}}}, []entry{{ID: 2, Code: "unavailable"}}
	if o.checks = generalChecks(o.cell, o.arms[0]); o.ok() {
		t.Error("an arm passes although a new client's call failed after the fault")
	}
	o = &outcome{cell: cell{Judge: noneFailed}}
	if o.judge(); o.ok() {
		t.Error("a cell passes in which tandem did not run")
	}
}

func TestMedianAndQuantile(t *testing.T) {
	ds := []time.Duration{1, 2, 3, 4}
	if quantile(ds, 0.5) != 2 || quantile(ds, 0.99) != 4 || quantile(ds, 1) != 4 || quantile(nil, 0.5) != 0 {
		t.Error("quantile is not the nearest rank")
	}
	if median([]time.Duration{3, 1, 2}) != 2 || median([]time.Duration{4, 1}) != 1 || median[float64](nil) != 0 {
		t.Error("median is not the middle value")
	}
}

func TestCellsAreComplete(t *testing.T) {
	names := map[string]bool{}
	for _, c := range cells(settings{soak: time.Minute}) {
		if names[c.Name] || c.Title == "" || c.Judge == nil {
			t.Errorf("cell %q: its name must be unique, and it needs a title and bars", c.Name)
		}
		names[c.Name] = true
	}
}
