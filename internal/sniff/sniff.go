// Package sniff tells from the first bytes of a connection who speaks on it.
// It is pure: whoever reads the bytes keeps the time and the limit.
package sniff

// Verdict is what a [Matcher] says of the first bytes of a connection.
type Verdict uint8

// The verdicts. No is final: more bytes do not change it, and neither do they
// change Yes.
const (
	No   Verdict = iota // another protocol's
	More                // too few to tell
	Yes                 // this protocol's
)

// A Matcher looks at the first bytes of a connection, of which more may come.
// It must not keep or change them, and gives the same verdict for the same
// bytes.
type Matcher func(first []byte) Verdict

// Decide asks the matchers in order, and returns the place of the one that
// takes the connection with Yes. One further down is chosen only when all before
// it have said No: while they need more bytes, the verdict is More. It is No when
// nobody takes the connection, at the latest when last says that no more bytes
// come. The place is -1 unless the verdict is Yes.
func Decide(matchers []Matcher, first []byte, last bool) (int, Verdict) {
	for i, match := range matchers {
		switch match(first) {
		case Yes:
			return i, Yes
		case More:
			if !last {
				return -1, More
			}
		case No:
		}
	}
	return -1, No
}

// Prefix returns a Matcher for connections that begin with one of these.
func Prefix(prefixes ...string) Matcher {
	return func(first []byte) Verdict {
		verdict := No
		for _, p := range prefixes {
			n := min(len(p), len(first))
			if string(first[:n]) != p[:n] {
				continue
			}
			if n == len(p) {
				return Yes
			}
			verdict = More
		}
		return verdict
	}
}
