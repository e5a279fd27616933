package jsonrpc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/tandem-rpc/tandem/server"
)

// The reader finds the same messages as encoding/json, however the bytes are split, and
// never holds more than the limit.
func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"a":"}]\"{"} [1,{"b":[]}]`+"\n{}"), 100)
	f.Add([]byte("{]\n{}"), 10)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		whole := readAll(t, bytes.NewReader(data), limit)
		byBytes := readAll(t, iotest.OneByteReader(bytes.NewReader(data)), limit)
		if !slicesEqual(whole, byBytes) {
			t.Fatalf("%q at once, %q byte by byte", whole, byBytes)
		}
		dec := json.NewDecoder(bytes.NewReader(data))
		for i := 0; ; i++ {
			var v json.RawMessage
			if err := dec.Decode(&v); err != nil || len(v) > limit || v[0] != '{' && v[0] != '[' {
				return // after this the two may differ
			}
			if i >= len(whole) {
				if tooDeep(v) {
					return
				}
				t.Fatalf("%q is not found in %q", v, data)
			}
			if !bytes.Equal(whole[i], v) && whole[i] != nil {
				t.Fatalf("%q is found for %q", whole[i], v)
			}
			if whole[i] == nil {
				return
			}
		}
	})
}

func tooDeep(v []byte) bool {
	var f frame
	_, _, err := f.scan(v)
	return err != nil
}

func slicesEqual(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// readAll returns the messages, nil for an invalid one.
func readAll(t *testing.T, r io.Reader, limit int) (all [][]byte) {
	in := reader{r: bufio.NewReaderSize(r, 16), midway: func(bool) {}}
	for {
		m, err := in.next(limit)
		if len(m) > max(0, limit) {
			t.Fatalf("%d bytes, limit %d", len(m), limit)
		}
		if err != nil && !errors.As(err, new(*parseError)) && !errors.Is(err, errTooLarge) && !errors.Is(err, errTooMany) {
			return all
		}
		all = append(all, bytes.TrimSpace(m))
		if err == nil && json.Valid(m) {
			_, _ = parse(m)
		}
	}
}

func TestMatch(t *testing.T) {
	for said, want := range map[string]server.Verdict{
		"": server.NeedMore, " \r\n": server.NeedMore, "{": server.Yes, "\n[": server.Yes, "GET ": server.No, "\x93": server.No, "7{": server.No,
	} {
		if got := New().Match([]byte(said)); got != want {
			t.Errorf("%q: %v, want %v", said, got, want)
		}
	}
}
