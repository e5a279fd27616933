package sniff

import (
	"testing"
)

func TestClash(t *testing.T) {
	long := Prefix("GET /", "POST /")
	for name, c := range map[string]struct {
		matchers []Matcher
		want     string
	}{
		"nothing in common":      {[]Matcher{Prefix("\x93TND"), Prefix("{", "["), long, Prefix("PRI * HTTP/2.0\r\n\r\nSM")}, ""},
		"the same byte":          {[]Matcher{Prefix("\x93TND"), Prefix("a", "b"), Prefix("b", "c")}, "b"},
		"the same words":         {[]Matcher{Prefix("\x93TND"), long, Prefix("PUT /", "POST /")}, "POST /"},
		"one takes what begins":  {[]Matcher{Prefix("CONNECT /"), Prefix("C")}, "CONNECT /"},
		"one takes all":          {[]Matcher{Prefix("\x93TND"), func([]byte) Verdict { return Yes }}, "\x93TND"},
		"one wants ever more":    {[]Matcher{Prefix("\x93TND"), func([]byte) Verdict { return More }}, ""},
		"one panics":             {[]Matcher{Prefix("a"), func(first []byte) Verdict { return Verdict(first[1]) }}, ""},
		"one matcher":            {[]Matcher{Prefix("a")}, ""},
		"tandem's own are taken": {[]Matcher{Prefix("\x93TND"), Prefix("\x93TND")}, "\x93TND"},
	} {
		a, b, first := Clash(c.matchers)
		if string(first) != c.want || c.want != "" && (a >= b || c.matchers[a](first) != Yes || c.matchers[b](first) != Yes) {
			t.Errorf("%s: %d and %d at %q, want %q", name, a, b, first, c.want)
		}
	}
}

// A clash that is found is a real one, and the search is bounded.
func TestClashIsBounded(t *testing.T) {
	asked := 0
	count := func([]byte) Verdict {
		asked++
		return More
	}
	if _, _, first := Clash([]Matcher{count, count}); first != nil || asked > 2*256*maxShared {
		t.Errorf("%d questions, %q", asked, first)
	}
}

func TestTakesAll(t *testing.T) {
	if TakesAll(Prefix("a")) || TakesAll(func(first []byte) Verdict { return Verdict(first[1]) }) ||
		!TakesAll(func([]byte) Verdict { return Yes }) {
		t.Error("wrong")
	}
}
