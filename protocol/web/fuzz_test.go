package web

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

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

// noPace is a pacer without a timer.
type noPace struct{ running bool }

func (p *noPace) start() { p.running = true }
func (p *noPace) stop()  { p.running = false }

// Lines are found in the same places however the bytes arrive, and however they are read.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"1\n2\n", "\n\n{}", "", "{\"a\":\n1}\r\n", "a\nb"} {
		f.Add([]byte(s), 3)
	}
	f.Fuzz(func(t *testing.T, b []byte, size int) {
		want := bytes.Split(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
		if len(b) == 0 {
			want = nil
		}
		for _, from := range []io.Reader{bytes.NewReader(b), iotest.OneByteReader(bytes.NewReader(b)), iotest.DataErrReader(bytes.NewReader(b))} {
			pace := &noPace{}
			l := &lineBody{ReadCloser: io.NopCloser(from), pacer: pace}
			var got [][]byte
			for l.next() {
				line, err := io.ReadAll(readBy(l, size))
				if err != nil {
					t.Fatal(err)
				}
				if len(line) > 0 || l.ended {
					got = append(got, line)
				}
			}
			if !slices.EqualFunc(got, want, bytes.Equal) || pace.running {
				t.Fatalf("%q, want %q; timer %t", got, want, pace.running)
			}
		}
	})
}

// readBy reads from r at most size bytes at a time.
func readBy(r io.Reader, size int) io.Reader {
	return readerFunc(func(b []byte) (int, error) { return r.Read(b[:min(len(b), 1+max(0, size)%100)]) })
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// Any Accept header chooses one of the forms, or none.
func FuzzAccept(f *testing.F) {
	for _, s := range []string{"text/event-stream", "application/json;q=0.1, application/x-ndjson; q=1", "*/*", ";,q=;", "text/event-stream;q=0"} {
		f.Add(s)
	}
	m := &server.Method{Name: "A.B"}
	f.Fuzz(func(t *testing.T, accept string) {
		if form := responseForm([]string{accept}, true, m); !slices.Contains(streamForms, form) {
			t.Fatalf("%q", form)
		}
		if form := responseForm([]string{accept}, false, m); form != "" && (!slices.Contains(streamForms, form) || form == typeJSON) {
			t.Fatalf("%q", form)
		}
	})
}

var errOther = errors.New("another")

// A body that breaks off is no end of the last line.
func TestLinesBreakOff(t *testing.T) {
	l := &lineBody{ReadCloser: io.NopCloser(io.MultiReader(bytes.NewReader([]byte("1\n2")), iotest.ErrReader(errOther))), pacer: &noPace{}}
	for _, want := range []string{"1", "2"} {
		if !l.next() {
			t.Fatal("there is another line")
		}
		b, err := io.ReadAll(l)
		if string(b) != want || (want == "2") != errors.Is(err, errOther) {
			t.Errorf("%q, %v", b, err)
		}
	}
}

// Base64 in padded pieces is decoded the same way however it arrives.
func FuzzText(f *testing.F) {
	f.Add([]byte("AAAAAAI="), true)
	f.Add([]byte("AA==AAAAAgo=DA=="), true)
	f.Add([]byte("ABA\nAAA\n"), false)
	f.Add([]byte("AAAA===="), false)
	f.Add([]byte("AAAAA"), false)
	f.Fuzz(func(t *testing.T, b []byte, encode bool) {
		src := b
		if encode { // in pieces of up to seven bytes, each padded
			src = nil
			for piece := range slices.Chunk(b, 7) {
				src = base64.StdEncoding.AppendEncode(src, piece)
			}
		}
		whole, err := io.ReadAll(&base64Body{ReadCloser: io.NopCloser(bytes.NewReader(src))})
		if encode && (err != nil || !bytes.Equal(whole, b)) {
			t.Fatalf("%q, %v", whole, err)
		}
		for _, from := range []io.Reader{iotest.OneByteReader(bytes.NewReader(src)), iotest.DataErrReader(bytes.NewReader(src)), iotest.HalfReader(bytes.NewReader(src))} {
			got, again := io.ReadAll(&base64Body{ReadCloser: io.NopCloser(from)})
			if (again == nil) != (err == nil) || err == nil && !bytes.Equal(got, whole) {
				t.Fatalf("%q, %v, then %q, %v", whole, err, got, again)
			}
		}
	})
}
