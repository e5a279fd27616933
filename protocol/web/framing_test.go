package web

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"
)

// parts feeds b to a framing, size bytes at a time, and returns the headers and bodies that
// it finds.
func parts(b []byte, size int) (list []string, f framing) {
	var part []byte
	for len(b) > 0 {
		n := f.next(b[:min(size, len(b))])
		part = append(part, b[:n]...)
		b = b[n:]
		if f.part == between || f.begun && !f.midHeader() && bytes.HasSuffix(part, []byte("\r\n\r\n")) {
			list = append(list, string(part))
			part = nil
		}
	}
	return list, f
}

func TestFraming(t *testing.T) {
	header := "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n"
	chunked := "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
	want := []string{header, "abc", "GET / HTTP/1.1\r\n\r\n", chunked, "a;b\r\n0123456789\r\n0\r\n\r\n", header, "def"}
	all := strings.Join(want, "")
	for size := 1; size <= len(all); size++ {
		got, f := parts([]byte(all), size)
		if strings.Join(got, "|") != strings.Join(want, "|") || f.malformed != "" {
			t.Fatalf("%d at a time: %q, %s", size, got, f.malformed)
		}
	}
}

// FuzzFraming compares framing with net/http: net/http divides bytes that framing accepts
// in the same way, or refuses them.
func FuzzFraming(f *testing.F) {
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabcGET / HTTP/1.1\r\nHost: a\r\n\r\n"), 7)
	f.Add([]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\nX: y\r\n\r\nGET / HTTP/1.0\n\n"), 1)
	f.Add([]byte("POST / HTTP/1.1\nHost: a\nX: y\n Content-Length: 5\nContent-Length: 3\r\n\r\nabc"), 3)
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		size = 1 + (size&0x7fffffff)%64
		counted := &counting{b: b, size: size}
		r := bufio.NewReader(counted)
		for {
			req, err := http.ReadRequest(r)
			if err != nil || counted.framing.http2 {
				return
			}
			if got := counted.framing; got.malformed == "" && (req.ContentLength != 0) != got.midBody() && !tiny(b) {
				t.Fatalf("the body has %d bytes, and framing is at %d", req.ContentLength, got.part)
			}
			_, err = io.Copy(io.Discard, req.Body)
			if counted.framing.malformed != "" || err != nil {
				return
			}
			if counted.framing.part != between || r.Buffered() > 0 {
				t.Fatalf("after the body framing is at %d, and %d bytes are left", counted.framing.part, r.Buffered())
			}
		}
	})
}

// tiny reports whether a header may end before net/http checks its first bytes.
func tiny(b []byte) bool { return len(b) < 20 }

// counting is a reader that ends reads where framing does, as conn does.
type counting struct {
	framing framing
	b       []byte
	size    int
}

func (c *counting) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := c.framing.next(c.b[:min(len(p), len(c.b), c.size)])
	copy(p, c.b[:n])
	c.b = c.b[n:]
	return n, nil
}
