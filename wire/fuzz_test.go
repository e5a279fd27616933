package wire_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// The fuzz targets check that a parser does not panic, that its errors are
// violations, that it takes no more memory than the size of its input allows, and
// that its result is stable: appended and parsed again it is the same.

// addChecks makes the inputs of a parser's limit tests seeds.
func addChecks(f *testing.F, parser string) {
	for _, c := range checks[parser] {
		if len(c.in) < 4<<10 {
			f.Add(c.in)
		}
	}
}

// addVectors makes the golden vectors seeds, from their n-th byte on.
func addVectors(f *testing.F, from int, wanted func(*element) bool) {
	for _, v := range vectors {
		for i := range v.send {
			if e := &v.send[i]; wanted(e) {
				f.Add(e.append(nil)[from:])
			}
		}
	}
}

// refused reports whether err is not nil; it must be a violation then.
func refused(t *testing.T, err error) bool {
	t.Helper()
	if err != nil && !errors.Is(err, wire.ErrViolation) {
		t.Fatalf("not a violation: %v", err)
	}
	return err != nil
}

// atMost checks that a result is not larger than limit.
func atMost(t *testing.T, got, limit int) {
	t.Helper()
	if got > limit {
		t.Fatalf("%d bytes made of %d", got, limit)
	}
}

func FuzzHeader(f *testing.F) {
	addChecks(f, "header")
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < wire.HeaderLen {
			return
		}
		h, err := wire.ParseHeader(b)
		if refused(t, err) {
			return
		}
		if again := wire.AppendHeader(nil, h); !bytes.Equal(again, b[:wire.HeaderLen]) {
			t.Fatalf("% x became % x", b[:wire.HeaderLen], again)
		}
	})
}

// FuzzFrame takes whole frames apart, as a reader does.
func FuzzFrame(f *testing.F) {
	for _, v := range vectors {
		var all []byte
		for i := range v.send {
			all = v.send[i].append(all)
		}
		f.Add(all)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			e, rest, err := parse(b)
			if errors.Is(err, errShort) || refused(t, err) {
				return
			}
			e.words() // must not panic either
			again, left, err := parse(e.append(nil))
			if err != nil || len(left) > 0 {
				t.Fatalf("% x: parsed, appended and refused: %v, %d bytes left", b, err, len(left))
			}
			cut := e.header.Type == wire.TypeReset && e.header.Length > wire.MaxStatus/2 // a status may be
			if !cut && !slices.Equal(withoutLength(e), withoutLength(again)) {
				t.Fatalf("% x: %q became %q", b, e.words(), again.words())
			}
			b = rest
		}
	})
}

// withoutLength returns e in words, to compare. Appended again, a head may be
// shorter, and a frame about the connection has neither flags nor a stream number.
func withoutLength(e element) []string {
	switch e.header.Type {
	case wire.TypePing, wire.TypePong, wire.TypeGoAway:
		e.header = wire.Header{Type: e.header.Type}
	}
	e.header.Length = 0
	e.version = 0 // AppendPreface writes its own
	return e.words()
}

func FuzzPreface(f *testing.F) {
	addChecks(f, "preface")
	addVectors(f, 0, func(e *element) bool { return e.preface != nil })
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < wire.PrefaceLen {
			return
		}
		version, n, err := wire.ParsePrefaceHead(b)
		if refused(t, err) {
			return
		}
		if version == 0 || n < 0 || n > wire.MaxSettings || string(b[:4]) != wire.Magic {
			t.Fatalf("% x: version %d, %d bytes of settings", b[:wire.PrefaceLen], version, n)
		}
	})
}

func FuzzSettings(f *testing.F) {
	addChecks(f, "settings")
	addVectors(f, wire.PrefaceLen, func(e *element) bool { return e.preface != nil })
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := wire.ParseSettings(b)
		if refused(t, err) {
			return
		}
		size := 0
		for _, name := range slices.Concat(s.Codecs, s.Compressors) {
			size += len(name)
		}
		atMost(t, size, len(b))
		preface := wire.AppendPreface(nil, s)
		if len(preface) > wire.PrefaceLen+wire.MaxSettings {
			t.Fatalf("% x: grew to %d bytes", b, len(preface))
		}
		again, err := wire.ParseSettings(preface[wire.PrefaceLen:])
		if err != nil {
			t.Fatal(err)
		}
		same(t, s, again)
	})
}

func FuzzRequest(f *testing.F) {
	addChecks(f, "request")
	addVectors(f, wire.HeaderLen, func(e *element) bool { return e.header.Type == wire.TypeRequest })
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again wire.Request
		block, err := wire.ParseRequest(b, &r)
		if refused(t, err) {
			return
		}
		atMost(t, len(r.Name.Text)+len(r.Metadata)+len(block), len(b))
		rest, err := wire.ParseRequest(append(wire.AppendRequest(nil, &r), block...), &again)
		if err != nil || !bytes.Equal(rest, block) {
			t.Fatalf("% x: %v, block % x became % x", b, err, block, rest)
		}
		r.Metadata = orNil(r.Metadata)
		same(t, r, again)
	})
}

// orNil returns nil for an empty field, as for one that was left out.
func orNil(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

func FuzzResponse(f *testing.F) {
	addChecks(f, "response")
	addVectors(f, wire.HeaderLen, func(e *element) bool { return e.header.Type == wire.TypeResponse })
	f.Fuzz(func(t *testing.T, b []byte) {
		var r, again wire.Response
		block, err := wire.ParseResponse(b, &r)
		if refused(t, err) {
			return
		}
		atMost(t, len(r.Status)+len(r.Trailer)+len(block), len(b))
		rest, err := wire.ParseResponse(append(wire.AppendResponse(nil, &r), block...), &again)
		if err != nil || !bytes.Equal(rest, block) {
			t.Fatalf("% x: %v, block % x became % x", b, err, block, rest)
		}
		r.Status, r.Trailer = orNil(r.Status), orNil(r.Trailer)
		same(t, r, again)
	})
}

func FuzzStatus(f *testing.F) {
	addChecks(f, "status")
	f.Add(encodeStatus(wire.Status{Code: tandem.NotFound, NotExecuted: true, Message: "none", Details: []tandem.Detail{{Type: "t", Value: []byte{1}}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := wire.ParseStatus(b)
		if refused(t, err) {
			return
		}
		size := len(s.Message)
		for _, d := range s.Details {
			size += len(d.Type) + len(d.Value)
		}
		atMost(t, size, len(b))
		if len(s.Details) > wire.MaxDetails {
			t.Fatalf("%d details", len(s.Details))
		}
		once, err := wire.ParseStatus(wire.AppendStatus(nil, &s))
		if err != nil {
			t.Fatal(err)
		}
		if len(b) <= wire.MaxStatus/2 { // larger ones may be cut
			same(t, s, once)
		}
	})
}

func FuzzMetadata(f *testing.F) {
	addChecks(f, "metadata")
	f.Add(mustMetadata(tandem.Metadata{"tenant": {"blue"}, "trace": {"4bf92f", "00f067"}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := wire.ParseMetadata(b)
		if refused(t, err) {
			return
		}
		size, pairs := 0, 0
		for key, values := range m {
			for _, v := range values {
				size += len(v)
				pairs++
			}
			size += len(key)
		}
		atMost(t, size, len(b))
		atMost(t, pairs, wire.MaxMetadataPairs)
		encoded, err := wire.AppendMetadata(nil, m)
		if err != nil && len(b) <= wire.MaxMetadata-6 {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		again, err := wire.ParseMetadata(encoded)
		if err != nil {
			t.Fatal(err)
		}
		same(t, m, again)
	})
}
