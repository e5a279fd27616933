package web

import "testing"

func TestFrames(t *testing.T) {
	b := []byte("SM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" + "\x00\x00\x03\x01\x00\x00\x00\x00\x01abc" + "\x00\x00\x02\x09\x04\x00\x00\x00\x01de")
	ends := map[int]bool{6: true, 15: true, 38: true} // offsets between frames; a header continues at 27
	for size := 1; size <= len(b); size++ {
		var f frames
		for at := 0; at < len(b); {
			n := min(size, len(b)-at)
			f.add(b[at : at+n])
			if at += n; f.midway() == ends[at] {
				t.Fatalf("%d at a time, after %d bytes: midway is %v", size, at, f.midway())
			}
		}
	}
}
