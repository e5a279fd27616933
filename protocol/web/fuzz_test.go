package web

import (
	"testing"

	"github.com/tandem-rpc/tandem/server"
)

// Match's verdict does not change when more bytes arrive.
func FuzzMatch(f *testing.F) {
	for _, s := range []string{"GET / HTTP/1.1\r\n", "PRI * HTTP/2.0", "POST http://a/", "CONNECT a:1", "M-SEARCH *", "get /", "{}", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p := &protocol{}
		last := server.NeedMore
		for n := 1; n <= len(b); n++ {
			v := p.Match(b[:n])
			if last != server.NeedMore && v != last {
				t.Fatalf("%q is %v, %q is %v", b[:n-1], last, b[:n], v)
			}
			if v == server.NeedMore && n > longestMethod+1 {
				t.Fatalf("%q is not enough", b[:n])
			}
			last = v
		}
	})
}

// Any client may send questions to reflection.
func FuzzQuestion(f *testing.F) {
	for _, s := range []string{"\x3a\x00", "\x22\x03a.B", "\x2a\x05\x0a\x01x\x10\x05", "\x2a\xff\xff\xff\xff\x0f", "\x08\x80"} {
		f.Add([]byte(s))
	}
	r := &reflector{srv: server.New(), own: healthFiles()}
	f.Fuzz(func(t *testing.T, b []byte) {
		var q question
		if q.UnmarshalVT(b) != nil {
			return
		}
		if len(q.text) > len(b) {
			t.Fatalf("%q of %q", q.text, b)
		}
		answer, err := r.answer(&q, map[string]bool{}).MarshalVT()
		if err != nil || len(answer) == 0 {
			t.Fatalf("%q, %v", answer, err)
		}
	})
}

// Any query, header and content type of a request is handled without a panic.
func FuzzContent(f *testing.F) {
	for _, s := range []string{"application/json", "application/json; charset=\"utf-8\"", "application/grpc+proto", "application/connect+json", "/;+", ""} {
		f.Add(s, "encoding=json&message={}", "/a.B/C")
	}
	codecs := newCodecs()
	f.Fuzz(func(t *testing.T, contentType, query, path string) {
		r := newRequest(contentType, query)
		for _, method := range []string{"GET", "POST"} {
			r.Method = method
			if c := contentOf(withDefaults(r)); codecs[c.codec] != nil && c.protocol == "" {
				t.Fatalf("%+v", c)
			}
		}
		_ = methodOf(path)
	})
}
