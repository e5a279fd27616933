// Package sniff recognizes the protocol of a connection by its first bytes. It is
// pure: the caller reads the bytes and enforces the timeout and the limit.
package sniff

// Verdict is the result of a [Matcher] for the first bytes of a connection.
type Verdict uint8

// The verdicts. No and Yes are final: more bytes do not change them.
const (
	No   Verdict = iota // the connection is of another protocol
	More                // more bytes are needed
	Yes                 // the connection is of this protocol
)

// A Matcher looks at the first bytes of a connection, of which more may come.
// It must not keep or change them, and gives the same verdict for the same
// bytes.
type Matcher func(first []byte) Verdict

// Decide calls the matchers in order and returns the index of the one that takes the
// connection with Yes, or -1. A matcher is chosen only when all before it have returned
// No: while one of these needs more bytes, the verdict is More. last says that no more
// bytes come; then More counts as No. The verdict is No when no matcher takes the
// connection.
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

// Prefix returns a Matcher for connections that begin with one of the prefixes.
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
