package rpcx

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/iotest"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/multiplex"
)

// FuzzAnswers reads arbitrary bytes as a client reads responses: each has a reply within
// the limit or an error with a valid code, and they do not depend on how the bytes are
// split.
func FuzzAnswers(f *testing.F) {
	for _, v := range readVectors(f) {
		f.Add(v.response, 100)
		f.Add(append(v.response, v.response...), 2)
	}
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit = min(max(limit, 0), 1<<20)
		whole, single := answersOf(t, bytes.NewReader(data), limit, len(data)), answersOf(t, iotest.OneByteReader(bytes.NewReader(data)), limit, len(data))
		if whole != single {
			t.Fatalf("%q at once, %q byte by byte", whole, single)
		}
	})
}

// answersOf returns the responses as text, up to the end of the connection.
func answersOf(t *testing.T, r io.Reader, limit, size int) (said string) {
	in := &answers{multiplex.NewReader(nil), bufio.NewReaderSize(r, 16), limit}
	c := &carrier{protocol: newProtocol()}
	for {
		seq, got, err := in.next()
		if cap(got.payload)+cap(got.block) > 4*size+2*readBuffer {
			t.Fatalf("%d and %d bytes taken for %d", cap(got.payload), cap(got.block), size)
		}
		if err != nil {
			return said + err.Error()
		}
		req := &client.Request{Call: &tandem.Call{Method: "A.B", Compressor: "gzip"}}
		err = c.take(req, &got)
		switch e, ok := errors.AsType[*tandem.Error](err); {
		case len(req.Reply) > limit:
			t.Fatalf("%d: %d bytes, limit %d", seq, len(req.Reply), limit)
		case err != nil && (!ok || e.Code == tandem.OK || !e.Code.Valid() || !e.Remote):
			t.Fatalf("%d: %v", seq, err)
		}
		said += fmt.Sprintf("%d %q %v %v %v\n", seq, req.Reply, req.ReplyCompressed, req.Call.Trailer, err)
	}
}
