package trace

import (
	"encoding/hex"

	"github.com/tandem-rpc/tandem"
)

// A traceparent of version 00: version, trace, span and flags, in hexadecimal.
const (
	idAt, spanAt, flagsAt = 3, 36, 53
	parentLen             = 55
)

// maxState is the longest tracestate, in bytes, that is passed on.
const maxState = 512

// String returns the trace as a traceparent.
func String(t *tandem.Trace) string {
	var b [parentLen]byte
	b[0], b[1], b[2], b[spanAt-1], b[flagsAt-1] = '0', '0', '-', '-', '-'
	hex.Encode(b[idAt:], t.ID[:])
	hex.Encode(b[spanAt:], t.Span[:])
	hex.Encode(b[flagsAt:], []byte{t.Flags})
	return string(b[:])
}

// Parse reads a traceparent into t's ID, Span and Flags, and reports whether it is valid; if
// not, t is unchanged. Of a later version it reads the fields of version 00.
func Parse(s string, t *tandem.Trace) bool {
	if len(s) < parentLen || s[2] != '-' || s[spanAt-1] != '-' || s[flagsAt-1] != '-' {
		return false
	}
	var version, flags [1]byte
	var read tandem.Trace
	if !unhex(version[:], s[:2]) || !unhex(read.ID[:], s[idAt:]) || !unhex(read.Span[:], s[spanAt:]) || !unhex(flags[:], s[flagsAt:]) {
		return false
	}
	if version[0] == 0xff || version[0] == 0 && len(s) != parentLen || len(s) > parentLen && s[parentLen] != '-' || !read.Valid() {
		return false
	}
	t.ID, t.Span, t.Flags = read.ID, read.Span, flags[0]
	return true
}

// unhex reads lower-case digits until dst is full.
func unhex(dst []byte, s string) bool {
	all := byte(0)
	s = s[:2*len(dst)]
	for i := range dst {
		high, low := digits[s[2*i]], digits[s[2*i+1]]
		all |= high | low
		dst[i] = high<<4 | low
	}
	return all <= 15
}

// digits has 0 to 15 for the lower-case hexadecimal digits, and more for all other bytes.
var digits = func() (values [256]byte) { //nolint:gochecknoglobals // a table that is never changed
	for c := range values {
		values[c] = 0xff
	}
	for value, c := range "0123456789abcdef" {
		values[c] = byte(value)
	}
	return values
}()
