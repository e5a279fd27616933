package wire

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
)

// AppendMetadata appends the pairs of m, sorted by key, keys in lower case. It
// fails when m exceeds [MaxMetadata] bytes or [MaxMetadataPairs], or has an
// empty key.
func AppendMetadata(dst []byte, m tandem.Metadata) ([]byte, error) {
	start, pairs := len(dst), 0
	m = folded(m)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if key == "" {
			return dst[:start], errors.New("metadata with an empty key")
		}
		for _, value := range m[key] {
			pairs++
			if pairs > MaxMetadataPairs || len(dst)-start+len(key)+len(value) > MaxMetadata-6 {
				return dst[:start], fmt.Errorf("metadata exceeds %d bytes or %d pairs", MaxMetadata, MaxMetadataPairs)
			}
			dst = appendPrefixed(appendPrefixed(dst, key), value)
		}
	}
	return dst, nil
}

// folded returns m with all keys in lower case: m itself unless its methods
// were bypassed.
func folded(m tandem.Metadata) tandem.Metadata {
	upper := func(r rune) bool { return 'A' <= r && r <= 'Z' }
	for key := range m {
		if !strings.ContainsFunc(key, upper) {
			continue
		}
		lower := make(tandem.Metadata, len(m))
		for _, k := range slices.Sorted(maps.Keys(m)) { // "A" before "a": the same order each time
			for _, v := range m[k] {
				lower.Add(k, v)
			}
		}
		return lower
	}
	return m
}

// ParseMetadata reads pairs; a key may occur several times. Keys come out in
// lower case, whatever the peer has sent: else nobody would find them. The
// result does not refer to b; it is nil when there are none.
func ParseMetadata(b []byte) (tandem.Metadata, error) {
	if len(b) == 0 {
		return nil, nil
	}
	m := make(tandem.Metadata)
	for pairs := 1; len(b) > 0; pairs++ {
		if pairs > MaxMetadataPairs {
			return nil, violation("more than %d metadata pairs", MaxMetadataPairs)
		}
		key, rest, err := lengthPrefixed(b, MaxMetadata, "metadata key")
		if err != nil {
			return nil, err
		}
		value, rest, err := lengthPrefixed(rest, MaxMetadata, "metadata value")
		if err != nil {
			return nil, err
		}
		if len(key) == 0 {
			return nil, violation("metadata with an empty key")
		}
		m.Add(string(key), string(value))
		b = rest
	}
	return m, nil
}
