package instructions

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The dumps in testdata are callgrind's of one program, whose main calls
// fib(10), fib being written with two calls of itself: lines.callgrind made with
// --separate-recs=2, instructions.callgrind with --dump-instr=yes and
// --collect-jumps=yes.
func TestReadProfile(t *testing.T) {
	const calls = 177 // of fib: one, and two in each of its 88 calls with 2 or more
	for file, want := range map[string]Profile{
		"lines.callgrind":        {2740, map[string]int64{"main.main": 10, "main.fib": 2562}, map[string]int64{"main.fib": calls, "os.Exit": 1}, 0},
		"instructions.callgrind": {2740, map[string]int64{"main.main": 10, "main.fib": 2562}, map[string]int64{"main.fib": calls, "os.Exit": 1}, 0},
	} {
		text := read(t, file)
		got, err := ReadProfile(bytes.NewReader(text))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if got.Total != want.Total || sum(got.Self) != want.Total {
			t.Errorf("%s: %d instructions, of all functions together %d, want %d", file, got.Total, sum(got.Self), want.Total)
		}
		for name, n := range want.Self {
			if got.Self[name] != n {
				t.Errorf("%s: %s has %d instructions, want %d", file, name, got.Self[name], n)
			}
		}
		for name, n := range want.Calls {
			if got.Calls[name] != n {
				t.Errorf("%s: %s was called %d times, want %d", file, name, got.Calls[name], n)
			}
		}
		cut := text[:bytes.LastIndexByte(text[:len(text)*2/3], '\n')]
		if _, err := ReadProfile(bytes.NewReader(cut)); err == nil || !strings.Contains(err.Error(), "cut short") {
			t.Errorf("%s: error %v, want that the dump was cut short", file, err)
		}
	}
}

func TestWhatADumpMayHold(t *testing.T) {
	const dump = `# callgrind format
event: Ir : Instruction Fetches
events: Dr Ir
positions: instr line
fn=(1) a.f
0x10 5 1 0x0a
+4 * 2
fn=(2) type:.eq.[2]string
+4 +1 0 3
fn=(odd) name
+4 +1 0 4
fn=(1)
calls=3 0x40 9
* * 7 1000
* * 7 5
totals: 8 22
`
	p, err := ReadProfile(strings.NewReader(dump))
	if err != nil {
		t.Fatal(err)
	}
	if want := map[string]int64{"a.f": 15, "type:.eq.[2]string": 3, "(odd) name": 4}; !maps.Equal(p.Self, want) {
		t.Errorf("functions %v, want %v", p.Self, want)
	}
}

func TestMisses(t *testing.T) {
	const dump = "positions: line\nevents: Ir Dr DLmr D1mw DLmw\nfn=(1) f\n1 5 4 3 2 1\ntotals: 5 4 3 2 1\n"
	p, err := ReadProfile(strings.NewReader(dump))
	if err != nil || p.Missed != 4 || p.Total != 5 {
		t.Errorf("%+v, %v; want 4 misses in 5 instructions", p, err)
	}
	if _, err := ReadProfile(strings.NewReader(strings.Replace(dump, "2 1\n", "2 x\n", 1) + "totals: 5 4 x\n")); err == nil {
		t.Error("a count of misses that is none was taken")
	}
}

func TestDumpsThatAreWrong(t *testing.T) {
	const head = "positions: line\nevents: Ir\nfn=(1) f\n"
	for text, want := range map[string]string{
		"":                                      "no totals",
		head + "1 5\n":                          "no totals",
		head + "1 5\ntotals: 6\n":               "add up to 5 instructions, its totals say 6",
		head + "1 five\n":                       `line 4 of callgrind's dump: "five" is no count`,
		head + "1 -5\n":                         "is no count",
		head + "calls=x 1\n":                    "is no count",
		head + "fn=(2)\n":                       "function 2 has no name",
		head + "nonsense\n":                     "neither a cost nor a specification",
		head + "totals:\n":                      "without instructions",
		head + "1 9223372036854775807\n+1 1\n":  "more than an int64",
		"1 5\n":                                 "before the line that says which events",
		"events: Dr Dw\n":                       "not Ir",
		head + strings.Repeat("x", maxLine+1):   "too long",
		head + "calls=3 1\n1 5\ntotals: 5\n":    "add up to 0", // a call's cost is not the caller's own
		head + "1 5\n1 5\ntotals: 5\ntotals: 6": "its totals say 11",
	} {
		if _, err := ReadProfile(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want %q in it", text, err, want)
		}
	}
}

// Whatever is read, a profile adds up.
func FuzzReadProfile(f *testing.F) {
	for _, file := range []string{"lines.callgrind", "instructions.callgrind"} {
		f.Add(read(f, file))
	}
	f.Add([]byte("events: Ir\nfn=(1) a'2\n1 5\ncfn=(1)\ncalls=1 1\n1 9\ntotals: 5\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := ReadProfile(bytes.NewReader(text))
		if err != nil {
			return
		}
		if p.Total < 0 || sum(p.Self) != p.Total {
			t.Errorf("functions with %d instructions of %d", sum(p.Self), p.Total)
		}
		for name := range p.Self {
			partOf(name)
		}
	})
}

func sum(functions map[string]int64) (n int64) {
	for _, v := range functions {
		n += v
	}
	return n
}

func read(tb testing.TB, file string) []byte {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		tb.Fatal(err)
	}
	return text
}
