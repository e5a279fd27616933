package sniff

// Bounds of a search for clashes, in first bytes that are as yet more than one matcher's
// and in their number.
const (
	maxShared = 64
	maxDepth  = 32
)

// Clash looks for first bytes that two matchers both take with Yes, and returns the places
// of the two and those bytes; nil if it has found none. It follows only beginnings that two
// matchers have not said No to, and at most [maxShared] of them, the shortest first: what
// differs later, as in the middle of a binary header, is not found. A matcher that panics
// has said No.
func Clash(matchers []Matcher) (a, b int, first []byte) {
	shared := [][]byte{nil}
	for n := 0; n < len(shared) && n < maxShared; n++ {
		for c := range 256 {
			next := append(shared[n][:len(shared[n]):len(shared[n])], byte(c))
			taken, open := -1, 0
			for i, match := range matchers {
				switch guarded(match, next) {
				case Yes:
					if taken >= 0 {
						return taken, i, next
					}
					taken = i
				case More:
					open++
				case No:
				}
			}
			if (open > 1 || open > 0 && taken >= 0) && len(next) < maxDepth {
				shared = append(shared, next)
			}
		}
	}
	return 0, 0, nil
}

// TakesAll reports whether a matcher takes every connection, by its first byte.
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
