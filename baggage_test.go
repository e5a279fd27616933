package tandem_test

import (
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
)

func TestParseBaggage(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat("k=v,", 3000), ",")
	numbered := make([]string, 70)
	for i := range numbered {
		numbered[i] = "k" + string(rune('A'+i/26)) + string(rune('a'+i%26)) + "=1"
	}
	for _, c := range []struct {
		name    string
		lists   []string
		want    string
		dropped int
	}{
		{"one", []string{"lane=blue"}, "lane=blue", 0},
		{"white space", []string{" lane =\tblue , tenant= 7 "}, "lane=blue,tenant=7", 0},
		{"properties", []string{"a=1; p ;q=2,b=2"}, "a=1; p ;q=2,b=2", 0},
		{"several lists", []string{"a=1", "b=2"}, "a=1,b=2", 0},
		{"the last of a key", []string{"a=1,b=2", "a=3"}, "a=3,b=2", 0},
		{"empty members", []string{",,a=1,"}, "a=1", 0},
		{"empty value", []string{"a="}, "a=", 0},
		{"invalid members", []string{"a,=1,b b=1,c=ü,d=\"x\",e=1 2,f=1;\x01,g=1"}, "g=1", 7},
		{"too many members", []string{strings.Join(numbered, ",")}, strings.Join(numbered[:64], ","), 6},
		{"a list too long", []string{many + ",x=1"}, "k=v", 3001 - 8192/4},
		{"a member too long", []string{"a=" + strings.Repeat("x", 8192) + ",b=1"}, "", 2},
		{"lists too long", []string{"a=" + strings.Repeat("x", 8000), "b=" + strings.Repeat("x", 200), "c=1"}, "a=" + strings.Repeat("x", 8000) + ",c=1", 1},
		{"nothing", nil, "", 0},
	} {
		b, dropped := tandem.ParseBaggage(c.lists...)
		if b.String() != c.want || dropped != c.dropped {
			t.Errorf("%s: %.100q, %d dropped; want %.100q, %d", c.name, b, dropped, c.want, c.dropped)
		}
	}
}

func TestBaggageWith(t *testing.T) {
	b, _ := tandem.ParseBaggage("a=1")
	for _, value := range []string{"", "blue", "100 %", "a,b;c=d\\\"", "grün", "%41"} {
		with, err := b.With("lane", value)
		if err != nil || with.Get("lane") != value || with.Get("a") != "1" || with.Len() != 2 {
			t.Errorf("%q: %q, %v", value, with, err)
		}
		back, dropped := tandem.ParseBaggage(with.String())
		if back != with || dropped != 0 {
			t.Errorf("%q is read back as %q, %d dropped", with, back, dropped)
		}
	}
	if replaced, err := b.With("a", "2"); err != nil || replaced.String() != "a=2" {
		t.Errorf("%q, %v", replaced, err)
	}
	for _, c := range [][2]string{{"", "x"}, {"a b", "x"}, {"a,b", "x"}, {"k", "\xff"}, {"k", strings.Repeat("x", 8191)}} {
		if with, err := b.With(c[0], c[1]); tandem.CodeOf(err) != tandem.InvalidArgument || with != b {
			t.Errorf("%.20q=%.20q: %v", c[0], c[1], err)
		}
	}
	if ctx, err := tandem.WithBaggage(t.Context(), "no token", ""); err == nil || ctx != t.Context() {
		t.Errorf("%v", err)
	}
}

// FuzzParseBaggage: what is taken can be sent and is read back as it is, within the bounds.
func FuzzParseBaggage(f *testing.F) {
	for _, seed := range []string{"lane=blue,tenant=7", "a=1;p=%20 , b = 2", "a=%zz,a=%ff,,=", "a=1;\"x\""} {
		f.Add(seed, "k")
	}
	f.Fuzz(func(t *testing.T, list, key string) {
		b, _ := tandem.ParseBaggage(list, list)
		if len(b.String()) > tandem.MaxBaggage || b.Len() > tandem.MaxBaggageMembers {
			t.Fatalf("%d bytes, %d pairs", len(b.String()), b.Len())
		}
		if back, dropped := tandem.ParseBaggage(b.String()); back != b || dropped != 0 {
			t.Fatalf("%q is read back as %q, %d dropped", b, back, dropped)
		}
		n := 0
		for k, v := range b.All() {
			n++
			if b.Get(k) != v {
				t.Fatalf("%q: %q of %q", k, v, b)
			}
		}
		if n != b.Len() {
			t.Fatalf("%d pairs of %q", n, b)
		}
		if with, err := b.With(key, list); err == nil && with.Get(key) != list {
			t.Fatalf("%q=%q is %q", key, list, with.Get(key))
		}
	})
}
