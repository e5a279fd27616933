package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/httpcalls"
)

// canned is a connection to a server that answers any request with the same bytes, and then
// closes.
type canned struct {
	net.Conn // nil

	answer *bytes.Reader
	asked  chan struct{}
	once   sync.Once
}

func newCanned(answer []byte) *canned {
	return &canned{answer: bytes.NewReader(answer), asked: make(chan struct{})}
}

func (c *canned) Read(p []byte) (int, error) {
	<-c.asked
	return c.answer.Read(p)
}

func (c *canned) Write(p []byte) (int, error) {
	c.ask()
	return len(p), nil
}

func (c *canned) Close() error {
	c.ask()
	return nil
}

func (c *canned) ask()                             { c.once.Do(func() { close(c.asked) }) }
func (*canned) LocalAddr() net.Addr                { return &net.TCPAddr{} }
func (*canned) RemoteAddr() net.Addr               { return &net.TCPAddr{} }
func (*canned) SetDeadline(time.Time) error        { return nil }
func (*canned) SetReadDeadline(time.Time) error    { return nil }
func (*canned) SetWriteDeadline(_ time.Time) error { return nil }

// mostAnswered is the limit of a response's message.
const mostAnswered = 1000

// calledAt makes a call to a server that sends this response, over HTTP/1.1, which the
// parsers of gRPC responses accept too.
func calledAt(answer []byte, opts ...connect.ClientOption) (*client.Request, error) {
	remote := &client.Remote{Endpoint: tandem.Endpoint{Transport: "tcp", Address: "server:1"}, MaxMessage: mostAnswered}
	s := httpcalls.New(newCanned(answer), func(context.Context) (net.Conn, error) { return nil, io.EOF }, false)
	defer func() { _ = s.Close() }()
	c := &caller{Server: s, clientProtocol: newCalling("test", false, opts...), remote: remote}
	r := &client.Request{Call: &tandem.Call{Method: "a.B.C", Codec: "protobuf"}, Message: []byte{8, 1}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return r, c.Carry(ctx, r)
}

// Whatever a server answers, a call ends with a message within the limit, or an error with
// a valid code.
func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 2\r\n\r\n\x08\x01",
		"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 43\r\n\r\n" + `{"code":"not_found","message":"x","details":[{"type":"a.B","value":"CAE"}]}`,
		"HTTP/1.1 429 Too Many\r\nRetry-After: 1\r\nContent-Length: 1\r\n\r\n{",
		"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\n\r\n",
	} {
		f.Add([]byte(s), false)
	}
	for _, status := range []string{"0", "5", "16", "17", "99", "256", "4294967295", "-1", ""} {
		f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/grpc+proto\r\nTrailer: Grpc-Status\r\nTransfer-Encoding: chunked\r\n\r\n"+
			"7\r\n\x00\x00\x00\x00\x02\x08\x01\r\n0\r\nGrpc-Status: "+status+"\r\nGrpc-Message: a%20b\r\nGrpc-Status-Details-Bin: CAUSAXg\r\n\r\n"), true)
		f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nGrpc-Status: "+status+"\r\nContent-Length: 0\r\n\r\n"), true)
	}
	f.Fuzz(func(t *testing.T, answer []byte, grpc bool) {
		var opts []connect.ClientOption
		if grpc {
			opts = append(opts, connect.WithGRPC())
		}
		r, err := calledAt(answer, opts...)
		if err == nil {
			if len(r.Reply) > mostAnswered {
				t.Fatalf("%d bytes", len(r.Reply))
			}
			return
		}
		e, ok := errors.AsType[*tandem.Error](err)
		if !ok || e.Code == tandem.OK || !e.Code.Valid() {
			t.Fatalf("%q is answered: %v", answer, err)
		}
	})
}
