package all_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/rpc"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/plugin/auth"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/protocol/all"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/wire"
)

// gate is a server that refuses every caller.
type gate struct {
	*testing.T
	address string
}

// asked are the methods that the tests call: a unary method, a safe one, one for small
// messages, a stream, and one that does not exist. Their names have the same length.
var asked = []string{"Open", "Look", "Tiny", "Flow", "Nope"}

// newGate returns a server whose plugin, or interceptor, refuses every call.
func newGate(t *testing.T, guard server.Option) *gate {
	t.Helper()
	srv := server.New(server.WithProtocols(withTriple()...), guard, server.WithLogger(slog.New(slog.DiscardHandler)))
	entered := func(context.Context, *string) (*string, error) {
		t.Error("a stranger came in")
		return nil, errors.New("come in")
	}
	check(server.Handle(srv, "Gate.Open", entered))
	check(server.Handle(srv, "Gate.Look", entered, server.MethodSafe()))
	check(server.Handle(srv, "Gate.Tiny", entered, server.MethodMaxMessage(16)))
	check(server.HandleStream(srv, "Gate.Flow", func(context.Context, *tandem.Stream[string, string]) error {
		t.Error("a stranger came in")
		return nil
	}))
	check(srv.Alias(gateInJava, "Gate"))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	t.Cleanup(func() {
		check(srv.Close())
		<-served
	})
	return &gate{t, ln.Addr().String()}
}

// stranger calls a method of Gate over one protocol in one way, with a token or none, and
// returns the whole response.
type stranger func(g *gate, method, token string) []byte

// strangers are the ways to call: every protocol has a row for a correct request, and one
// for each error it can report about a codec, a compressor, a kind or a verb. Thrift's are
// in its module's TestUniformAnswers.
var strangers = []struct {
	protocol, way string
	ask           stranger
}{
	{"tandem", "plain", askTandem(wire.FlagEnd, nil)},
	{"tandem", "codec", askTandem(wire.FlagEnd, func(r *wire.Request) { r.Codec = 99 })},
	{"tandem", "compressor", askTandem(wire.FlagEnd, func(r *wire.Request) { r.Compressor = 77 })},
	{"tandem", "compressed by nothing", askTandem(wire.FlagEnd|wire.FlagCompressed, nil)},
	{"tandem", "stream", askTandem(wire.FlagEnd|wire.FlagStream, nil)},
	{"tandem", "large", askTandem(0, func(r *wire.Request) { r.Size = 1 << 40 })},
	{"tandem", "in pieces", askTandemInPieces},
	{"netrpc", "plain", askNetRPC},
	{"jsonrpc", "plain", askLine},
	{"jsonrpc", "POST", askHTTP(post1, "/jsonrpc", "Content-Type", "application/json")},
	{"rpcx", "plain", askRPCX(0, 0x10)},
	{"rpcx", "codec", askRPCX(0, 0x70)},
	{"rpcx", "Thrift", askRPCX(0, 0x40)},
	{"rpcx", "compressor", askRPCX(0x08, 0x10)},
	{"rpcx", "heartbeat", askRPCX(0x40, 0x10)},
	{"rpcx", "compressed by nothing", askRPCX(0x04, 0x10)},
	{"web", "JSON", askHTTP(post1, gatePath, "Content-Type", "application/json")},
	{"web", "JSON over HTTP/2", askHTTP(post2, gatePath, "Content-Type", "application/json")},
	{"web", "Protocol Buffers", askHTTP(post1, gatePath, "Content-Type", "application/proto")},
	{"web", "codec", askHTTP(post1, gatePath, "Content-Type", "application/xml")},
	{"web", "no codec", askHTTP(post1, gatePath)},
	{"web", "compressor", askHTTP(post1, gatePath, "Content-Type", "application/json", "Content-Encoding", "lzma")},
	{"web", "timeout", askHTTP(post1, gatePath, "Content-Type", "application/json", "Connect-Timeout-Ms", "soon")},
	{"web", "version", askHTTP(post1, gatePath, "Content-Type", "application/json", "Connect-Protocol-Version", "9")},
	{"web", "GET", askHTTP(get1, gatePath)},
	{"web", "GET with a message", askHTTP(get1, gatePath+"?message=%22x%22&encoding=json")},
	{"web", "GET with a body", askHTTP(way{verb: http.MethodGet, full: true}, gatePath)},
	{"web", "GET, codec", askHTTP(get1, gatePath+"?message=x&encoding=xml")},
	{"web", "GET, compressor", askHTTP(get1, gatePath+"?message=x&encoding=json&compression=lzma")},
	{"web", "GET, base64", askHTTP(get1, gatePath+"?message=%25&encoding=json&base64=1")},
	{"web", "DELETE", askHTTP(way{verb: http.MethodDelete}, gatePath)},
	{"web", "PUT over HTTP/2", askHTTP(way{verb: http.MethodPut, http2: true}, gatePath, "Content-Type", "application/json")},
	{"web", "OPTIONS", askHTTP(way{verb: http.MethodOptions}, gatePath)},
	{"web", "Connect's stream", askHTTP(post1, gatePath, "Content-Type", "application/connect+json")},
	{"web", "Connect's stream over HTTP/2", askHTTP(post2, gatePath, "Content-Type", "application/connect+proto")},
	{"web", "Connect's stream, codec", askHTTP(post1, gatePath, "Content-Type", "application/connect+xml")},
	{"web", "Connect's stream, compressor", askHTTP(post2, gatePath, "Content-Type", "application/connect+json", "Connect-Content-Encoding", "lzma")},
	{"web", "gRPC", askHTTP(post2, gatePath, "Content-Type", "application/grpc")},
	{"web", "gRPC, codec", askHTTP(post2, gatePath, "Content-Type", "application/grpc+xml")},
	{"web", "gRPC, compressor", askHTTP(post2, gatePath, "Content-Type", "application/grpc", "Grpc-Encoding", "lzma")},
	{"web", "gRPC, timeout", askHTTP(post2, gatePath, "Content-Type", "application/grpc", "Grpc-Timeout", "soon")},
	{"web", "gRPC over HTTP/1.1", askHTTP(post1, gatePath, "Content-Type", "application/grpc+json")},
	{"web", "gRPC-Web", askHTTP(post1, gatePath, "Content-Type", "application/grpc-web")},
	{"web", "gRPC-Web, codec", askHTTP(post1, gatePath, "Content-Type", "application/grpc-web+xml")},
	{"web", "gRPC-Web, compressor", askHTTP(post1, gatePath, "Content-Type", "application/grpc-web+json", "Grpc-Encoding", "lzma")},
	{"web", "gRPC-Web in text mode", askHTTP(post1, gatePath, "Content-Type", "application/grpc-web-text")},
	{"web", "gRPC-Web in text mode over HTTP/2", askHTTP(post2, gatePath, "Content-Type", "application/grpc-web-text+proto", "Accept", "application/grpc-web-text")},
	{"web", "events", askHTTP(post1, gatePath, "Content-Type", "application/json", "Accept", "text/event-stream")},
	{"web", "events over HTTP/2", askHTTP(post2, gatePath, "Content-Type", "application/json", "Accept", "text/event-stream")},
	{"web", "events by GET", askHTTP(get1, gatePath+"?message=%22x%22", "Accept", "text/event-stream")},
	{"web", "events, timeout", askHTTP(post1, gatePath, "Content-Type", "application/json", "Accept", "text/event-stream", "Connect-Timeout-Ms", "soon")},
	{"web", "lines", askHTTP(post1, gatePath, "Content-Type", "application/x-ndjson")},
	{"web", "lines over HTTP/2", askHTTP(post2, gatePath, "Content-Type", "application/x-ndjson", "Accept", "application/json")},
	{"web", "lines, compressor", askHTTP(post1, gatePath, "Content-Type", "application/x-ndjson", "Content-Encoding", "gzip")},
	{"triple", "plain", askHTTP(post2, javaPath, "Content-Type", "application/grpc")},
	{"triple", "codec", askHTTP(post2, javaPath, "Content-Type", "application/json")},
	{"triple", "no codec", askHTTP(post2, javaPath)},
	{"triple", "GET", askHTTP(way{verb: http.MethodGet, http2: true}, javaPath)},
	{"triple", "compressor", askHTTP(post2, javaPath, "Content-Type", "application/grpc", "Grpc-Encoding", "lzma")},
}

// A caller without credentials gets the same bytes for every method, whether it exists or
// not, and whatever else is wrong with the request. Only paths with handlers of their own,
// such as a Triple interface, may name the content type that they require.
func TestUniformAnswers(t *testing.T) {
	refuse := func(context.Context, *tandem.Call) (any, error) { return nil, auth.ErrNoCredentials }
	for name, guard := range map[string]server.Option{
		"plugin": server.WithPlugins(auth.New(auth.Func(refuse))),
		"interceptor": server.WithInterceptors(func(tandem.Func) tandem.Func {
			return func(context.Context, *tandem.Call) error {
				return tandem.Errorf(tandem.Unauthenticated, "the call has no credentials that are known here")
			}
		}),
		"rules": server.WithRules(server.Rules{First: &policy.Server{
			Kind: policy.KindServer, Methods: map[string]policy.ServerMethod{"Gate.*": {Allow: []string{"staff"}}},
		}}),
	} {
		g := newGate(t, guard)
		for _, row := range strangers {
			for _, token := range []string{"", "mallory"} {
				t.Run(fmt.Sprintf("%s/%s/%s/%q", name, row.protocol, row.way, token), func(t *testing.T) {
					g := &gate{t, g.address}
					want := row.ask(g, "Nope", token)
					known := row.way == "heartbeat" || bytes.Contains(want, []byte("no credentials")) || bytes.Contains(want, []byte("rules of the server")) || bytes.Contains(want, []byte("want application/grpc+proto"))
					if !known {
						t.Errorf("answered %q", want)
					}
					for _, method := range asked {
						got := row.ask(g, method, token)
						for _, name := range []string{method, strings.ToLower(method)} {
							got = bytes.ReplaceAll(got, []byte(name), []byte("Nope"))
						}
						if !bytes.Equal(got, bytes.ReplaceAll(want, []byte("nope"), []byte("Nope"))) {
							t.Errorf("%s: %q\nno such method: %q", method, got, want)
						}
					}
				})
			}
		}
	}
}

// A new protocol needs rows.
func TestUniformAnswersCoverEveryProtocol(t *testing.T) {
	protocols := []string{"tandem", "triple"}
	for _, p := range all.New() {
		protocols = append(protocols, p.Name())
	}
	for _, p := range protocols {
		if !slices.ContainsFunc(strangers, func(s struct {
			protocol, way string
			ask           stranger
		}) bool {
			return s.protocol == p
		}) {
			t.Errorf("TestUniformAnswers has no row for %s", p)
		}
	}
}

const (
	gatePath = "/Gate/METHOD"
	javaPath = "/" + gateInJava + "/METHOD"
	saying   = "a message of more than sixteen bytes"
)

// exchange writes a request to a new connection and reads the response.
func (g *gate) exchange(request []byte, read func(net.Conn) ([]byte, error)) []byte {
	g.Helper()
	c, err := net.Dial("tcp", g.address)
	if err != nil {
		g.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.Write(request); err != nil {
		g.Fatal(err)
	}
	answer, err := read(c)
	if err != nil {
		g.Fatalf("%v after %q", err, answer)
	}
	return answer
}

// toTheEnd reads to the end of the connection, for protocols that close it when the client
// stops sending.
func toTheEnd(c net.Conn) ([]byte, error) {
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return nil, err
	}
	return io.ReadAll(c)
}

// askTandem sends one frame, and returns the status in the response.
func askTandem(flags wire.Flags, spoil func(*wire.Request)) stranger {
	return func(g *gate, method, token string) []byte {
		r := &wire.Request{Name: wire.Name{Text: []byte("Gate." + method)}, Codec: 2}
		if token != "" {
			var err error
			r.Metadata, err = wire.AppendMetadata(nil, tandem.Metadata{"authorization": {"Bearer " + token}})
			check(err)
		}
		if spoil != nil {
			spoil(r)
		}
		payload := wire.AppendRequest(nil, r)
		if flags&wire.FlagStream == 0 {
			payload = append(payload, saying...)
		}
		s := wire.DefaultSettings()
		s.Codecs = []string{"raw"}
		b := wire.AppendPreface(nil, s)
		b = wire.AppendHeader(b, wire.Header{Length: len(payload), Type: wire.TypeRequest, Flags: flags, Stream: wire.MakeStream(0, 1)})
		return g.exchange(append(b, payload...), readStatus)
	}
}

// askTandemInPieces sends a message of two blocks, the second after credit for it.
func askTandemInPieces(g *gate, method, _ string) []byte {
	const block = 60 << 10
	r := &wire.Request{Name: wire.Name{Text: []byte("Gate." + method)}, Codec: 2, Size: 2 * block}
	payload := append(wire.AppendRequest(nil, r), make([]byte, block)...)
	id := wire.MakeStream(0, 1)
	s := wire.DefaultSettings()
	s.Codecs = []string{"raw"}
	b := wire.AppendPreface(nil, s)
	b = wire.AppendHeader(b, wire.Header{Length: len(payload), Type: wire.TypeRequest, Stream: id})
	return g.exchange(append(b, payload...), func(c net.Conn) ([]byte, error) {
		h, first, err := readFrame(c, readPreface, wire.TypeWindow, wire.TypeResponse)
		if err != nil {
			return nil, err
		}
		if h.Type == wire.TypeResponse {
			status, err := statusOf(h, first)
			return append([]byte("before the end: "), status...), err
		}
		b := wire.AppendHeader(nil, wire.Header{Length: block, Type: wire.TypeData, Flags: wire.FlagEnd, Stream: id})
		if _, err := c.Write(append(b, make([]byte, block)...)); err != nil {
			return nil, err
		}
		h, payload, err := readFrame(c, nil, wire.TypeResponse)
		if err != nil {
			return nil, err
		}
		return statusOf(h, payload)
	})
}

// readStatus reads frames up to the response of a call.
func readStatus(c net.Conn) ([]byte, error) {
	h, payload, err := readFrame(c, readPreface, wire.TypeResponse)
	if err != nil {
		return nil, err
	}
	return statusOf(h, payload)
}

// statusOf returns the status in a response, without the server's load.
func statusOf(h wire.Header, payload []byte) ([]byte, error) {
	var r wire.Response
	_, err := wire.ParseResponse(payload, &r)
	return fmt.Append(r.Status, h.Flags), err
}

func readPreface(c net.Conn) error {
	head := make([]byte, wire.PrefaceLen)
	if _, err := io.ReadFull(c, head); err != nil {
		return err
	}
	_, n, err := wire.ParsePrefaceHead(head)
	if err == nil {
		_, err = io.CopyN(io.Discard, c, int64(n))
	}
	return err
}

// readFrame calls first, and then reads frames up to one of these types.
func readFrame(c net.Conn, first func(net.Conn) error, types ...wire.Type) (wire.Header, []byte, error) {
	if first != nil {
		if err := first(c); err != nil {
			return wire.Header{}, nil, err
		}
	}
	for {
		head := make([]byte, wire.HeaderLen)
		if _, err := io.ReadFull(c, head); err != nil {
			return wire.Header{}, nil, err
		}
		h, err := wire.ParseHeader(head)
		if err != nil {
			return h, nil, err
		}
		payload := make([]byte, h.Length)
		if _, err := io.ReadFull(c, payload); err != nil {
			return h, nil, err
		}
		if slices.Contains(types, h.Type) {
			return h, payload, nil
		}
	}
}

func askNetRPC(g *gate, method, token string) []byte {
	var b bytes.Buffer
	if token != "" {
		fmt.Fprintf(&b, "CONNECT %s HTTP/1.0\r\nAuthorization: Bearer %s\r\n\r\n", rpc.DefaultRPCPath, token)
	}
	e := gob.NewEncoder(&b)
	check(errors.Join(e.Encode(&rpc.Request{ServiceMethod: "Gate." + method, Seq: 7}), e.Encode(saying)))
	return g.exchange(b.Bytes(), toTheEnd)
}

func askLine(g *gate, method, _ string) []byte {
	return g.exchange([]byte(jsonCall(method)), toTheEnd)
}

func jsonCall(method string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"Gate.` + method + `","params":["` + saying + `"]}`
}

// askRPCX sends one frame with these bits of its kind and format.
func askRPCX(kind, format byte) stranger {
	return func(g *gate, method, token string) []byte {
		var metadata []byte
		if token != "" {
			metadata = appendPart(appendPart(nil, "__AUTH"), "Bearer "+token)
		}
		body := appendPart(appendPart(appendPart(appendPart(nil, "Gate"), method), string(metadata)), saying)
		b := append([]byte{0x08, 0, kind, format}, 0, 0, 0, 0, 0, 0, 0, 7)
		b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
		return g.exchange(append(b, body...), toTheEnd)
	}
}

func appendPart(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

// way is the form of an HTTP request.
type way struct {
	verb  string
	http2 bool
	full  bool // with a body, also where the verb has none
}

var (
	post1 = way{verb: http.MethodPost}
	post2 = way{verb: http.MethodPost, http2: true}
	get1  = way{verb: http.MethodGet}
)

// askHTTP makes a request with a header, and returns the whole response.
func askHTTP(by way, path string, header ...string) stranger {
	return func(g *gate, method, token string) []byte {
		g.Helper()
		transport := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
		transport.Protocols.SetHTTP1(!by.http2)
		transport.Protocols.SetUnencryptedHTTP2(by.http2)
		defer transport.CloseIdleConnections()
		message := `"` + saying + `"`
		switch {
		case path == "/jsonrpc":
			message = jsonCall(method)
		case len(header) > 0 && strings.Contains(header[1], "grpc"), len(header) > 0 && strings.Contains(header[1], "connect"):
			message = string(appendPart([]byte{0}, message))
		case by.verb != http.MethodPost && by.verb != http.MethodPut && !by.full:
			message = ""
		}
		ctx, cancel := context.WithTimeout(g.Context(), 10*time.Second)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, by.verb, "http://"+g.address+strings.ReplaceAll(path, "METHOD", method), strings.NewReader(message))
		check(err)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := transport.RoundTrip(r)
		if err != nil {
			g.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			g.Fatal(err)
		}
		response.Header.Del("Date")
		var b bytes.Buffer
		fmt.Fprintf(&b, "%s\n", response.Status)
		check(response.Header.Write(&b))
		fmt.Fprintf(&b, "\n%s\n", body)
		check(response.Trailer.Write(&b))
		return b.Bytes()
	}
}
