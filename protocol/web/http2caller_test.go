package web

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
)

// framed runs a server that a test plays with frames: answer gets each header that has come, with its
// number in all connections.
func framed(t *testing.T, answer func(n int, stream uint32, f *http2.Framer) error) (address string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var n atomic.Int32
	serve := func(c net.Conn) {
		defer c.Close()
		if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(c, c)
		err := f.WriteSettings()
		for err == nil {
			var frame http2.Frame
			if frame, err = f.ReadFrame(); err == nil && frame.Header().Type == http2.FrameHeaders {
				err = answer(int(n.Add(1)), frame.Header().StreamID, f)
			}
		}
	}
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		wg.Wait()
	})
	return ln.Addr().String()
}

// respond answers a call with a message.
func respond(f *http2.Framer, stream uint32, message string, more ...string) error {
	head := pack(append([]string{":status", "200", "content-type", "application/grpc+json"}, more...)...)
	return errors.Join(
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte(head), EndHeaders: true}),
		f.WriteData(stream, false, []byte(message)),
		f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: []byte(pack("grpc-status", "0", "grpc-message", "", "last", "word")), EndHeaders: true, EndStream: true}))
}

func dialJSON(t *testing.T, address string, opts ...client.Option) *client.Client {
	t.Helper()
	c, err := client.Dial("grpc://"+address, append(opts, client.WithProtocols(GRPC()), client.WithCodec(codec.JSON()), client.WithTimeout(time.Minute))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A call that the server says not to have processed is made again: as fail modes allow after
// REFUSED_STREAM, and in any mode on another connection after GOAWAY.
func TestNotProcessed(t *testing.T) {
	refuse := func(f *http2.Framer, stream uint32) error {
		return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
	}
	leave := func(f *http2.Framer, _ uint32) error { return f.WriteGoAway(0, http2.ErrCodeNo, nil) }
	for name, row := range map[string]struct {
		first func(f *http2.Framer, stream uint32) error
		mode  tandem.FailMode
		want  tandem.Code
	}{
		"refused":           {refuse, client.Failover, tandem.OK},
		"refused, failfast": {refuse, client.Failfast, tandem.Unavailable},
		"goaway":            {leave, client.Failover, tandem.OK},
		"goaway, failfast":  {leave, client.Failfast, tandem.OK},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			address := framed(t, func(n int, stream uint32, f *http2.Framer) error {
				requests.Store(int32(n))
				if n == 1 {
					return row.first(f, stream)
				}
				return respond(f, stream, "\x00\x00\x00\x00\x01"+"7")
			})
			got, err := client.Invoke[int](t.Context(), dialJSON(t, address, client.WithFailMode(row.mode)), "A.B", "x")
			switch e := tandem.AsError(err); {
			case row.want == tandem.OK && (err != nil || *got != 7 || requests.Load() != 2):
				t.Errorf("%v, %v after %d requests", got, err, requests.Load())
			case row.want != tandem.OK && (tandem.CodeOf(err) != row.want || !e.NotExecuted || requests.Load() != 1):
				t.Errorf("%+v after %d requests", e, requests.Load())
			}
		})
	}
}

// A message may be compressed with gzip, which the request allows, and not beyond the limit.
func TestCompressedResponse(t *testing.T) {
	send := func(text, encoding string) (int, error) {
		b, err := compress.Gzip().Compress(nil, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		address := framed(t, func(_ int, stream uint32, f *http2.Framer) error {
			return respond(f, stream, string([]byte{1, 0, 0, byte(len(b) >> 8), byte(len(b))})+string(b), "grpc-encoding", encoding)
		})
		var md tandem.Metadata
		got, err := client.Invoke[string](t.Context(), dialJSON(t, address, client.WithMaxMessage(100)), "A.B", "x", client.Trailer(&md))
		if err != nil {
			return 0, err
		}
		if md.Get("last") != "word" {
			t.Errorf("metadata %v", md)
		}
		return len(*got), nil
	}
	for name, row := range map[string]struct {
		text, encoding string
		want           tandem.Code
	}{
		"at the limit":      {string(append(append([]byte{'"'}, make98()...), '"')), "gzip", tandem.OK},
		"beyond the limit":  {string(append(append([]byte{'"', 'x'}, make98()...), '"')), "gzip", tandem.ResourceExhausted},
		"another encoding":  {`"x"`, "br", tandem.Internal},
		"without a header":  {`"x"`, "", tandem.Internal},
		"of nothing at all": {`"x"`, "identity", tandem.Internal},
	} {
		if n, err := send(row.text, row.encoding); tandem.CodeOf(err) != row.want || err == nil && n != 98 {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
}

func make98() []byte {
	b := make([]byte, 98)
	for i := range b {
		b[i] = 'x'
	}
	return b
}

// A timeout is sent with at most eight digits, never less than what is left.
func TestAppendTimeout(t *testing.T) {
	for left, want := range map[time.Duration]string{
		-time.Second:                     "1u",
		1:                                "1u",
		time.Microsecond:                 "1u",
		time.Second:                      "1000000u",
		99999999 * time.Microsecond:      "99999999u",
		100 * time.Second:                "100000m",
		100*time.Second + 1:              "100001m",
		30 * time.Hour:                   "108000S",
		time.Duration(1<<63 - 1):         "2562048H",
		99999999 * time.Second:           "99999999S",
		99999999*time.Second + time.Hour: "27779H",
	} {
		got := string(appendTimeout(nil, left))
		back, ok := parseTimeout(got)
		if got != want || !ok || back != 0 && back < left {
			t.Errorf("%v: %s, want %s, which is %v", left, got, want, back)
		}
	}
}

// A call by a path that the cache does not keep any more is made like others.
func TestPathCache(t *testing.T) {
	var p pathCache
	for range 2 {
		for i := range maxPaths + 10 {
			method := "a.B.C" + string(rune('a'+i%26)) + time.Duration(i).String()
			if got := p.of(method); got != pathOf(method) {
				t.Fatalf("%s: %s", method, got)
			}
		}
	}
	if p.size.Load() != maxPaths {
		t.Error(p.size.Load())
	}
}

// The end of a context ends a call that waits for a connection.
func TestNoConnectionInTime(t *testing.T) {
	h := newHTTP2Caller(newCalling("test", grpcDialect{}), &client.Remote{Endpoint: tandem.Endpoint{Address: "server:1"}, MaxMessage: 10}, "http")
	defer h.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := h.Carry(ctx, &client.Request{Call: &tandem.Call{Method: "a.B.C", Codec: "protobuf"}})
	if e := tandem.AsError(err); e == nil || !e.NotExecuted {
		t.Errorf("%+v", e)
	}
}
