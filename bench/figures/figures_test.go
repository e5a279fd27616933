package figures

import (
	"strings"
	"testing"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		of   []float64
		want Spread
	}{
		{[]float64{5, 1, 3}, Spread{3, 1, 5}},
		{[]float64{4, 1, 3, 2}, Spread{2.5, 1, 4}},
		{nil, Spread{}},
	} {
		if got := SpreadOf(c.of); got != c.want {
			t.Errorf("the spread of %v is %v, want %v", c.of, got, c.want)
		}
	}
	s := Spread{12.345, 1, 123.45}
	if got := s.Fixed(1); got != "12.3 (1.0–123.5)" {
		t.Errorf("with a fixed digit it is written %q", got)
	}
}

func TestNumber(t *testing.T) {
	for want, v := range map[string]float64{"1": 1, "1.23": 1.2345, "12.3": 12.345, "123": 123.45, "0": 0, "0.50": 0.5, "-3.20": -3.2} {
		if got := Number(v); got != want {
			t.Errorf("%v is written %q, want %q", v, got, want)
		}
	}
}

func TestTables(t *testing.T) {
	const want = "a machine\n" +
		"\ntitle\n  a             ns\n  µs             5\n  long name  12345\na note\n" +
		"\n  x  y\n"
	var b strings.Builder
	err := Write(&b, []string{"a machine"},
		Table{Title: "title", Heads: []string{"a", "ns"}, Rows: [][]string{{"µs", "5"}, {"long name", "12345"}}, Notes: []string{"a note"}},
		Table{Heads: []string{"x", "y"}})
	if err != nil || b.String() != want {
		t.Errorf("error %v, written\n%s\nwant\n%s", err, b.String(), want)
	}
}
