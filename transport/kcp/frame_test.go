package kcp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
)

// parsed returns the frames that a parser finds, as text.
func parsed(pieces ...[]byte) (found string, data []byte, err error) {
	var p parser
	for _, b := range pieces {
		err = p.feed(b,
			func(b []byte) error { data = append(data, b...); return nil },
			func(k kind) error { found += fmt.Sprintf("%d@%d ", k, len(data)); return nil })
		if err != nil {
			return found, data, err
		}
	}
	return found, data, nil
}

func frame(n int) []byte {
	return append(binary.LittleEndian.AppendUint16(nil, uint16(n)), bytes.Repeat([]byte{'x'}, n)...)
}

func TestFrames(t *testing.T) {
	all := bytes.Join([][]byte{control(hello), frame(3), control(alive), frame(300), control(end), control(bye)}, nil)
	for cut := range all {
		found, data, err := parsed(all[:cut], all[cut:])
		if found != "2@0 1@3 0@303 3@303 " || len(data) != 303 || err != nil {
			t.Fatalf("cut at %d: %q, %d bytes, %v", cut, found, len(data), err)
		}
	}
	if _, _, err := parsed([]byte{0, 0, 9}); err == nil {
		t.Error("an unknown kind is taken")
	}
}

// The same bytes give the same frames, in whatever pieces they come.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 0, 2, 3, 0, 1, 2, 3, 0, 0, 0}, 4)
	f.Add(frame(5), 1)
	f.Add([]byte{0, 0, 9}, 2)
	f.Fuzz(func(t *testing.T, b []byte, cut int) {
		at := 0
		if len(b) > 0 {
			at = int(uint(cut) % uint(len(b)))
		}
		found1, data1, err1 := parsed(b)
		found2, data2, err2 := parsed(b[:at], b[at:])
		if found1 != found2 || !bytes.Equal(data1, data2) || (err1 == nil) != (err2 == nil) {
			t.Errorf("%q %q %v, cut at %d %q %q %v", found1, data1, err1, at, found2, data2, err2)
		}
		if len(data1) > len(b) {
			t.Error("more came out than went in")
		}
	})
}
