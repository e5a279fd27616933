package jsonrpc

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/iotest"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// FuzzAnswers reads arbitrary bytes as a client reads responses: each response belongs to a
// request, is within the limit, and has a result that is JSON or an error with a valid
// code; and they do not depend on how the bytes are split.
func FuzzAnswers(f *testing.F) {
	for _, s := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"a":"}]\""}}` + "\n" + `{"id":2,"result":null,"error":"no"}`,
		`{"jsonrpc":"2.0","id":18446744073709551615,"error":{"code":-32601,"message":"m","data":"d"}}`,
		`{"id":1,"error":{"code":-32005,"data":"not found"}} {"id":1,"error":{"code":-9223372036854775808}}`,
		`{"id":null,"error":{"code":-32700}}`, `{"method":"x","id":1}{"id":1.0,"result":1}`, `[{"id":1,"result":1}]`, `{"ID":1,"id":"2","Result":7}`,
		`{"id":1,"error":0}{"id":1,"error":{"code":"x"}}{"id":1,"error":{"code":1e3}}`, "{]\n{}",
	} {
		f.Add([]byte(s), 100)
	}
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit = min(max(limit, 0), 1<<20)
		whole := answersOf(t, &answers{in: reader{r: bufio.NewReaderSize(bytes.NewReader(data), 16), midway: func(bool) {}}, limit: limit})
		single := answersOf(t, &answers{in: reader{r: bufio.NewReaderSize(iotest.OneByteReader(bytes.NewReader(data)), 16), midway: func(bool) {}}, limit: limit})
		if whole != single {
			t.Fatalf("%q at once, %q byte by byte", whole, single)
		}
	})
}

// answersOf returns the responses as text, up to the end of the connection.
func answersOf(t *testing.T, in *answers) (said string) {
	for {
		seq, got, err := in.next()
		if err != nil {
			return said + err.Error()
		}
		r := &client.Request{Call: &tandem.Call{Method: "A.B"}}
		err = got.take(r)
		switch e, ok := errors.AsType[*tandem.Error](err); {
		case err == nil && (len(r.Reply) > in.limit+answerRoom || r.Reply != nil && !json.Valid(r.Reply)):
			t.Fatalf("%d: %q, limit %d", seq, r.Reply, in.limit)
		case err != nil && (!ok || e.Code == tandem.OK || !e.Code.Valid() || !e.Remote):
			t.Fatalf("%d: %v", seq, err)
		}
		said += fmt.Sprintf("%d %q %v\n", seq, r.Reply, err)
	}
}
