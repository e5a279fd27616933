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
	var few [4]string
	keys := slices.AppendSeq(few[:0], maps.Keys(m))
	slices.Sort(keys)
	for _, key := range keys {
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

// ParseMetadata reads pairs; a key may occur several times. Keys are returned in
// lower case, whatever the peer has sent: else Get would not find them. The
// result does not refer to b; it is nil when there are none.
func ParseMetadata(b []byte) (tandem.Metadata, error) { return new(Pairs).Parse(b) }

// Pairs is memory for metadata, which later metadata may reuse. The zero value is ready.
type Pairs struct {
	pairs  tandem.Metadata
	values []string
}

// Parse is [ParseMetadata] into the memory of p. It overwrites what p parsed before.
func (p *Pairs) Parse(b []byte) (tandem.Metadata, error) {
	if len(b) == 0 {
		return nil, nil
	}
	text := string(b)
	if p.pairs == nil {
		p.pairs = make(tandem.Metadata)
	}
	clear(p.pairs)
	p.values = p.values[:0]
	for pairs := 1; len(b) > 0; pairs++ {
		if pairs > MaxMetadataPairs {
			return nil, violation("more than %d metadata pairs", MaxMetadataPairs)
		}
		key, afterKey, err := lengthPrefixed(b, MaxMetadata, "metadata key")
		if err != nil {
			return nil, err
		}
		value, rest, err := lengthPrefixed(afterKey, MaxMetadata, "metadata value")
		if err != nil {
			return nil, err
		}
		if len(key) == 0 {
			return nil, violation("metadata with an empty key")
		}
		p.add(before(text, afterKey, len(key)), before(text, rest, len(value)))
		b = rest
	}
	return p.pairs, nil
}

// before returns the n bytes of text before rest, which is the end of text.
func before(text string, rest []byte, n int) string {
	end := len(text) - len(rest)
	return text[end-n : end]
}

// Small reports whether the memory is worth keeping.
func (p *Pairs) Small() bool {
	const most = 8
	return cap(p.values) <= most
}

func (p *Pairs) add(key, value string) {
	if others := p.pairs.Values(key); others != nil {
		p.pairs.Set(key, append(others, value)...)
		return
	}
	p.values = append(p.values, value)
	n := len(p.values)
	p.pairs.Set(key, p.values[n-1:n:n]...)
}
