package web

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// envelopes returns the bytes that arrived, up to the end of a message for each Receive,
// and none of a message that is too large.
func FuzzEnvelopes(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x03abc\x00\x00\x00\x00\x00\x02\x00\x00\x00\x02{}"), 3)
	f.Add([]byte("\x00\xff\xff\xff\xffabc"), 100)
	f.Add([]byte("\x00\x00\x00"), 1)
	f.Fuzz(func(t *testing.T, in []byte, step int) {
		const most = 100
		e := &envelopes{ReadCloser: io.NopCloser(bytes.NewReader(in)), stream: &clientStream{most: most}}
		var out []byte
		room := make([]byte, max(1, min(step, 2*most)))
		for receives := 0; ; {
			n, err := e.Read(room)
			out = append(out, room[:n]...)
			switch {
			case errors.Is(err, errOneMessage):
				receives++
				e.stream.begun = true
			case err != nil:
				if !bytes.HasPrefix(in, out) || errors.Is(err, io.EOF) && len(out) != len(in) || receives > len(in)/len(e.head) {
					t.Errorf("%x became %x in %d messages: %v", in, out, receives, err)
				}
				return
			}
		}
	})
}
