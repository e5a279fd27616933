package netrpc

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/multiplex"
)

// FuzzAnswers reads arbitrary bytes as a client reads responses: they do not depend on how
// the bytes are split, and take no more memory than the bytes, besides read-ahead and type
// descriptions; decoding them does not panic.
func FuzzAnswers(f *testing.F) {
	type result struct{ A, B int }
	f.Add(stream(f, response{Seq: 1, ServiceMethod: "A.B"}, result{7, 8}, response{Seq: 2, Error: "no"}, struct{}{}), 100)
	f.Add(stream(f, response{Seq: 1}, make([]byte, 300), response{Seq: 2}, "text"), 100)
	f.Add([]byte{0xf8, 0, 0, 0, 0, 0x3f, 0xff, 0xff, 0xff, 2}, 1<<20)
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit = min(max(limit, 0), 1<<20)
		all, single := answersOf(t, bytes.NewReader(data), limit, len(data)), answersOf(t, iotest.OneByteReader(bytes.NewReader(data)), limit, len(data))
		if all != single {
			t.Fatalf("%q at once, %q byte by byte", all, single)
		}
		_ = whole(data)
	})
}

// answersOf returns the responses as text, up to the end of the connection.
func answersOf(t *testing.T, r io.Reader, limit, size int) (said string) {
	in := &incoming{
		outward: &outward{gob: codec.Gob()}, in: multiplex.NewReader(nil),
		gobs: gobReader{r: bufio.NewReaderSize(r, 64)}, limit: limit,
	}
	for {
		seq, got, err := in.next()
		if cap(got.reply) > 4*size+2*piece+2*len(in.gobs.types) {
			t.Fatalf("%d bytes taken for %d", cap(got.reply), size)
		}
		if err != nil {
			return said + err.Error()
		}
		var text string
		var numbers struct{ A, B int }
		said += fmt.Sprintln(seq, got.err, got.tooLarge, in.gob.Decode(got.reply, &text), text, in.gob.Decode(got.reply, &numbers), numbers)
	}
}
