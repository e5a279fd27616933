package grpcbridge

import (
	"maps"
	"slices"
	"testing"

	"google.golang.org/grpc/metadata"
)

// FuzzHeader reads headers of streams: what can be read is written as it was read.
func FuzzHeader(f *testing.F) {
	f.Add(encodeHeader(nil))
	f.Add(encodeHeader(metadata.Pairs("a", "1", "a", "", "b-bin", "\x00")))
	f.Add([]byte{headerMark, 1})
	f.Add([]byte{headerMark, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		if !isHeader(b) {
			return
		}
		md, err := parseHeader(b)
		if err != nil {
			return
		}
		again, err := parseHeader(encodeHeader(md))
		if err != nil || !maps.EqualFunc(md, again, slices.Equal) {
			t.Errorf("%q became %q, %v", md, again, err)
		}
	})
}

// A header and a trailer that travel as one are told apart again.
func TestPack(t *testing.T) {
	all := map[string][]string{"a": {"t1"}, "c": {"t2"}}
	pack(all, metadata.Pairs("a", "h1", "a", "h2", "b", "h3"), true)
	header, trailer := unpack(all)
	if !maps.EqualFunc(header, metadata.Pairs("a", "h1", "a", "h2", "b", "h3"), slices.Equal) || !maps.EqualFunc(trailer, metadata.Pairs("a", "t1", "c", "t2"), slices.Equal) {
		t.Errorf("header %v, trailer %v", header, trailer)
	}
	header, trailer = unpack(map[string][]string{headerKey: {"a", "a", "x"}, "a": {"1"}}) // of a peer that lies
	if len(header["a"]) != 1 || len(trailer) != 0 {
		t.Errorf("header %v, trailer %v", header, trailer)
	}
}
