package sniff_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/tandem-rpc/tandem/internal/sniff"
)

func matchers() []sniff.Matcher {
	return []sniff.Matcher{
		sniff.Prefix("\x93TND"), sniff.Prefix("GET ", "POST "), sniff.Prefix("G"), sniff.Prefix("{", "["),
	}
}

func TestDecide(t *testing.T) {
	for _, c := range []struct {
		first   string
		last    bool
		index   int
		verdict sniff.Verdict
	}{
		{"", false, -1, sniff.More},
		{"", true, -1, sniff.No},
		{"\x93T", false, -1, sniff.More},
		{"\x93TND\x01", false, 0, sniff.Yes},
		{"\x93TNX", false, -1, sniff.No},
		{"P", false, -1, sniff.More},
		{"POST /", false, 1, sniff.Yes},
		{"G", false, -1, sniff.More}, // the second may still take it
		{"G", true, 2, sniff.Yes},
		{"GO", false, 2, sniff.Yes},
		{"[1]", false, 3, sniff.Yes},
		{"\x00", false, -1, sniff.No},
	} {
		i, v := sniff.Decide(matchers(), []byte(c.first), c.last)
		if i != c.index || v != c.verdict {
			t.Errorf("%q, last %v: matcher %d, verdict %d; want %d, %d", c.first, c.last, i, v, c.index, c.verdict)
		}
	}
}

func Example() {
	list := []sniff.Matcher{sniff.Prefix("\x93TND"), sniff.Prefix("GET ", "POST ")}
	fmt.Println(sniff.Decide(list, []byte("P"), false))
	fmt.Println(sniff.Decide(list, []byte("POST"), false))
	fmt.Println(sniff.Decide(list, []byte("POST /"), false))
	// Output:
	// -1 1
	// -1 1
	// 1 2
}

// The verdict does not depend on how the bytes arrive: later bytes do not change a Yes
// or a No, and a connection is taken only with a Yes.
func FuzzDecide(f *testing.F) {
	f.Add([]byte("POST / HTTP/1.1\r\n"))
	f.Fuzz(func(t *testing.T, first []byte) {
		list, before := matchers(), bytes.Clone(first)
		decided, place := sniff.More, -1
		for n := range len(first) + 1 {
			i, v := sniff.Decide(list, first[:n], false)
			if (v == sniff.Yes) != (i >= 0) {
				t.Fatalf("%q: matcher %d with verdict %d", first[:n], i, v)
			}
			if decided != sniff.More && (v != decided || i != place) {
				t.Fatalf("%q: from matcher %d, verdict %d to %d, %d", first[:n], place, decided, i, v)
			}
			decided, place = v, i
			if _, v := sniff.Decide(list, first[:n], true); v == sniff.More {
				t.Fatalf("%q: more is wanted after the last", first[:n])
			}
		}
		if !bytes.Equal(first, before) {
			t.Fatal("the bytes were changed")
		}
	})
}
