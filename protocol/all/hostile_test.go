package all_test

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/rpc"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/internal/honestcalls"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
	"github.com/tandem-rpc/tandem/wire"
)

// said is the first bytes of a client of a protocol: before is a state in which it may wait
// for long, and request may break off anywhere. A new protocol needs a row; Thrift's is in
// its module.
type said struct{ before, request []byte }

func openings() map[string]said {
	http := func(path, kind, body string) []byte {
		return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", path, kind, len(body), body)
	}
	var gobs bytes.Buffer
	e := gob.NewEncoder(&gobs)
	check(errors.Join(e.Encode(&rpc.Request{ServiceMethod: honestcalls.Method, Seq: 7}), e.Encode(saying)))
	s := wire.DefaultSettings()
	s.Codecs = []string{"raw"}
	payload := append(wire.AppendRequest(nil, &wire.Request{Name: wire.Name{Text: []byte(honestcalls.Method)}, Codec: 1}), saying...)
	native := append(wire.AppendHeader(nil, wire.Header{Length: len(payload), Type: wire.TypeRequest, Flags: wire.FlagEnd, Stream: wire.MakeStream(0, 1)}), payload...)
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"` + honestcalls.Method + `","params":["` + saying + `"]}`)
	rpcx := append([]byte{8, 0, 0, 0x10}, 0, 0, 0, 0, 0, 0, 0, 7)
	rpcx = appendPart(rpcx, string(appendPart(appendPart(appendPart(appendPart(nil, "Honest"), "Len"), ""), `"x"`)))
	socket := []byte("GET /jsonrpc HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OTAxMjM0NQ==\r\n\r\n")
	text := append([]byte{0x81, 0x80 | 126}, binary.BigEndian.AppendUint16(nil, uint16(len(line)))...)
	text = append(append(text, 0, 0, 0, 0), line...) // a mask of zeros
	preface := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	envelope := string(appendPart([]byte{0}, `"x"`))
	return map[string]said{
		"tandem, settings":    {nil, wire.AppendPreface(nil, s)},
		"tandem":              {wire.AppendPreface(nil, s), native},
		"netrpc":              {nil, gobs.Bytes()},
		"netrpc, CONNECT":     {nil, []byte("CONNECT " + rpc.DefaultRPCPath + " HTTP/1.0\r\nA: b\r\n\r\n")},
		"netrpc over CONNECT": {[]byte("CONNECT " + rpc.DefaultRPCPath + " HTTP/1.0\r\n\r\n"), gobs.Bytes()},
		"jsonrpc":             {nil, line},
		"jsonrpc, POST":       {nil, http("/jsonrpc", "application/json", string(line))},
		"jsonrpc, upgrade":    {nil, socket},
		"jsonrpc, WebSocket":  {socket, text},
		"rpcx":                {nil, rpcx},
		"web, JSON":           {nil, http("/Honest/Len", "application/json", `"x"`)},
		"web, stream":         {nil, http("/Honest/Len", "application/connect+json", envelope)},
		"web, gRPC-Web":       {nil, http("/Honest/Len", "application/grpc-web+json", envelope)},
		"web, refused":        {nil, http("/No/Method", "application/json", `"x"`)},
		"web, HTTP/2":         {nil, preface},
		"web, gRPC":           {preface, headersFrame("/Honest/Len")},
		"triple":              {preface, headersFrame(javaPath)},
		"triple over HTTP/1":  {nil, http(javaPath, "application/grpc", envelope)},
	}
}

// headersFrame opens an HTTP/2 stream.
func headersFrame(path string) []byte {
	text := func(b []byte, s string) []byte { return append(append(b, byte(len(s))), s...) }
	b := append(text([]byte{0x83, 0x86, 0x04}, path), 0x01)
	b = text(append(text(b, "localhost"), 0x0f, 0x10), "application/grpc")
	head := binary.BigEndian.AppendUint32(nil, uint32(len(b))<<8|1)
	return append(append(head, 4, 0, 0, 0, 1), b...)
}

// port is a server of every protocol in a synctest bubble.
type port struct {
	*testing.T

	srv *server.Server
	net *transport.Memory
}

const hostileStall = 10 * time.Second

func newPort(t *testing.T) *port {
	t.Helper()
	p := &port{t, nil, transport.NewMemory()}
	ln, err := p.net.Listen(t.Context(), "a")
	check(err)
	p.srv = honestcalls.Serve(t, ln, server.WithProtocols(withTriple()...), server.WithStallTimeout(hostileStall), server.WithLogger(slog.New(slog.DiscardHandler)))
	return p
}

// say writes to a new connection, and reads everything from it. ended is closed at its end.
func (p *port) say(b []byte) (c net.Conn, ended <-chan struct{}) {
	p.Helper()
	c, err := p.net.Dial(p.Context(), "a")
	check(err)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(io.Discard, c)
	}()
	_, _ = c.Write(b) // the server may have closed it
	return c, over
}

// cuts returns the offsets at which a request breaks off.
func cuts(request []byte) []int {
	n := len(request)
	list := []int{1, 2, 5, n / 4, n / 2, n - 2, n - 1}
	for i := range list {
		list[i] = min(list[i], n-1)
	}
	return list
}

// On no protocol does an unfinished request, or a connection that sends nothing, stay
// longer than the stall timeout, and none affects other calls.
func TestUnfinishedOnEveryProtocol(t *testing.T) {
	for name, s := range openings() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPort(t)
				honestcalls.Beside(t, p.net, "a", func() {
					var clients sync.WaitGroup
					for _, cut := range cuts(s.request) {
						clients.Go(func() {
							began := time.Now()
							c, ended := p.say(append(bytes.Clone(s.before), s.request[:cut]...))
							patience := time.AfterFunc(2*hostileStall, func() { _ = c.Close() })
							<-ended
							patience.Stop()
							if took := time.Since(began); took > hostileStall+time.Second {
								t.Errorf("%d of %d bytes: closed after %v", cut, len(s.request), took)
							}
							_ = c.Close()
						})
					}
					clients.Wait()
				})
			})
		})
	}
}

// No connection without a running call delays Shutdown, on any protocol and wherever its
// request broke off, and neither does an idle one whose request was answered.
func TestShutdownOnEveryProtocol(t *testing.T) {
	for name, s := range openings() {
		t.Run(name, func(t *testing.T) {
			for _, cut := range append(cuts(s.request), 0, len(s.request)) {
				synctest.Test(t, func(t *testing.T) {
					p := newPort(t)
					c, ended := p.say(append(bytes.Clone(s.before), s.request[:cut]...))
					synctest.Wait()
					began := time.Now()
					check(p.srv.Shutdown(t.Context()))
					if took := time.Since(began); took > 3*time.Second {
						t.Errorf("%d of %d bytes: Shutdown took %v", cut, len(s.request), took)
					}
					_ = c.Close()
					<-ended
				})
			}
		})
	}
}

// Requests of every protocol with changed, inserted and removed bytes do not end other
// calls, and their connections end when their clients close them.
func TestGarbageOnEveryProtocol(t *testing.T) {
	for name, s := range openings() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPort(t)
				random := rand.New(rand.NewPCG(1, 2))
				honestcalls.Beside(t, p.net, "a", func() {
					for range 200 {
						b := append(bytes.Clone(s.before), spoil(random, s.request)...)
						c, ended := p.say(b)
						time.Sleep(time.Millisecond)
						check(c.Close())
						<-ended
					}
				})
			})
		})
	}
}

// spoil returns a request with random changes.
func spoil(random *rand.Rand, request []byte) []byte {
	b := bytes.Clone(request)
	for range 1 + random.IntN(4) {
		at := random.IntN(len(b))
		switch random.IntN(4) {
		case 0:
			b[at] = byte(random.Uint32())
		case 1:
			b = append(b[:at:at], append([]byte{byte(random.Uint32())}, b[at:]...)...)
		case 2:
			b[at] ^= 1 << random.IntN(8)
		case 3:
			b = append(b, b[at:]...)
		}
	}
	return b
}

// A new protocol needs a row.
func TestHostileClientsSpeakEveryProtocol(t *testing.T) {
	rows := openings()
	for _, p := range all.New() {
		if _, ok := rows[p.Name()]; !ok && p.Name() != "web" {
			t.Errorf("openings has no row for %s", p.Name())
		}
	}
}
