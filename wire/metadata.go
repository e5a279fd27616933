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
// fails when m
// exceeds [MaxMetadata] bytes or [MaxMetadataPairs], or has an empty key.
func AppendMetadata(dst []byte, m tandem.Metadata) ([]byte, error) {
	start, pairs := len(dst), 0
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if key == "" {
			return dst[:start], errors.New("metadata with an empty key")
		}
		for _, value := range m[key] {
			pairs++
			if pairs > MaxMetadataPairs || len(dst)-start+len(key)+len(value) > MaxMetadata-6 {
				return dst[:start], fmt.Errorf("metadata exceeds %d bytes or %d pairs", MaxMetadata, MaxMetadataPairs)
			}
			dst = appendPrefixed(appendPrefixed(dst, strings.ToLower(key)), value)
		}
	}
	return dst, nil
}

// ParseMetadata reads pairs; a key may occur several times. The result does
// not refer to b; it is nil when there are none.
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
		m[string(key)] = append(m[string(key)], string(value))
		b = rest
	}
	return m, nil
}
