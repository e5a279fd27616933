package sniff

import "slices"

// Bounds of a search for clashes.
const (
	maxShared = 64 // beginnings that the search follows
	maxBranch = 8  // next bytes of a beginning that it follows; one with more is not a word
	maxDepth  = 32 // bytes
)

// beginning is a series of first bytes for which at least two matchers have not returned No.
type beginning struct {
	first []byte
	open  []int // indexes of those matchers
}

// Clash looks for first bytes that two matchers both take with Yes. It returns the indexes of
// the two and those bytes, which are nil if it has found none. It follows words that two
// matchers begin with, the shortest first, and a bounded number of them: it does not find
// clashes in later bytes, as of a binary header. A matcher that panics counts as No.
func Clash(matchers []Matcher) (a, b int, first []byte) {
	all := make([]int, len(matchers))
	for i := range all {
		all[i] = i
	}
	shared := []beginning{{nil, all}}
	for n := 0; n < len(shared) && n < maxShared; n++ {
		var next []beginning
		first := append(slices.Clone(shared[n].first), 0)
		for c := range 256 {
			first[len(first)-1] = byte(c)
			at := beginning{first: first}
			taken := at.ask(matchers, shared[n].open)
			if len(taken) > 1 {
				return taken[0], taken[1], at.first
			}
			if len(at.open) > 1 && len(at.first) < maxDepth {
				at.first = slices.Clone(first)
				next = append(next, at)
			}
		}
		if n == 0 || len(next) <= maxBranch {
			shared = append(shared, next...)
		}
	}
	return 0, 0, nil
}

// ask calls the matchers at places. It records those that have not returned No in at.open, and
// returns those that have returned Yes.
func (at *beginning) ask(matchers []Matcher, places []int) (taken []int) {
	for _, i := range places {
		switch guarded(matchers[i], at.first) {
		case Yes:
			taken, at.open = append(taken, i), append(at.open, i)
		case More:
			at.open = append(at.open, i)
		case No:
		}
	}
	return taken
}

// TakesAll reports whether a matcher returns Yes for every first byte.
func TakesAll(match Matcher) bool {
	for c := range 256 {
		if guarded(match, []byte{byte(c)}) != Yes {
			return false
		}
	}
	return true
}

func guarded(match Matcher, first []byte) (v Verdict) {
	defer func() {
		if recover() != nil {
			v = No
		}
	}()
	return match(first)
}
