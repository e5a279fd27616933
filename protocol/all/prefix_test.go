package all_test

import (
	"math/rand/v2"
	"testing"

	"github.com/tandem-rpc/tandem/internal/sniff"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/wire"
)

// Every connection belongs to one protocol or to none, for any first bytes and however they
// are split: no two protocols accept it, and more bytes change no verdict. All values of
// the first two bytes are tried.
func TestEveryPrefix(t *testing.T) {
	names := []string{"tandem"}
	matchers := []sniff.Matcher{sniff.Prefix(wire.Magic)}
	for _, p := range withTriple() {
		names, matchers = append(names, p.Name()), append(matchers, p.Match)
	}
	more := 1_000_000
	if testing.Short() || raceEnabled {
		more = 50_000
	}
	random := rand.New(rand.NewPCG(1, 2))
	begins := openings()
	var words [][]byte
	for _, s := range begins {
		words = append(words, append(s.before, s.request...))
	}
	taken := map[string]int{}
	first := make([]byte, 24)
	for n := range 1<<16 + more {
		for i := range first {
			first[i] = byte(random.Uint32())
		}
		switch {
		case n < 1<<16:
			first[0], first[1] = byte(n>>8), byte(n)
		case n%2 == 0: // nearly the beginning of a protocol
			copy(first[:random.IntN(len(first))], words[random.IntN(len(words))])
		}
		taken[decide(t, names, matchers, first)]++
	}
	t.Logf("%v", taken)
	for _, name := range names {
		if taken[name] == 0 && name != "web" {
			t.Errorf("nothing was taken for %s", name)
		}
	}
}

// decide returns the name of the protocol that accepts a connection, after each byte.
func decide(t *testing.T, names []string, matchers []sniff.Matcher, first []byte) string {
	t.Helper()
	who := "none"
	for i, match := range matchers {
		decided := server.NeedMore
		for n := 1; n <= len(first); n++ {
			v := match(first[:n])
			if decided != server.NeedMore && v != decided {
				t.Fatalf("%s changes its mind at byte %d of %q", names[i], n, first)
			}
			decided = v
		}
		if decided != server.Yes {
			continue
		}
		if who != "none" {
			t.Fatalf("%s and %s both take %q", who, names[i], first)
		}
		who = names[i]
	}
	return who
}
