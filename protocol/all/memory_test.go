//go:build linux

package all_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/gob"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/compress/snappy"
	"github.com/tandem-rpc/tandem/compress/zstd"
	"github.com/tandem-rpc/tandem/internal/bombtest"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/protocol/rpcx"
	"github.com/tandem-rpc/tandem/protocol/triple"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// Bombs are messages that are small on the wire and as large as possible in memory. Many
// concurrent ones on one connection, for each protocol and each of its compressors, take
// less than 512 MiB of a server, and do not affect other calls. Thrift's are in its own
// module.
func TestBombsAreBounded(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("it takes long, and measures the memory of a process")
	}
	bombtest.Run(t, attacks(t))
}

// item has 64 bytes in memory for two of JSON, and for one of MessagePack, gob or Hessian.
type item struct{ A, B, C, D, E, F, G, H int }

// items is how many a message may have: decoded, they take 58 MiB.
const items = 600_000

// heavy has 1 KiB in memory for two bytes.
type heavy struct{ A [128]int }

func attacks(t *testing.T) []bombtest.Attack {
	text := append(append([]byte{'"'}, bytes.Repeat([]byte{'x'}, bombtest.Size)...), '"')
	gzipped := packed(t, compress.Gzip(), text)
	list := "[" + strings.Repeat("{},", items-1) + "{}]"
	maps := "\xdd" + string(binary.BigEndian.AppendUint32(nil, items/4)) + strings.Repeat("\x80", items/4)
	rows := []bombtest.Attack{
		{Name: "gRPC gzip", Send: overHTTP2(bombtest.Bombs(), "/Text/Len", "application/grpc+json", "", envelope(gzipped))},
		{Name: "gRPC gzip, many connections", Send: several(many, overHTTP2(bombtest.Bombs()/many, "/Text/Len", "application/grpc+json", "", envelope(gzipped)))},
		{Name: "Connect gzip", Send: overHTTP2(bombtest.Bombs(), "/Text/Len", "application/json", "gzip", gzipped)},
		{Name: "Triple gzip", Send: overHTTP2(bombtest.Bombs()/2, "/Java/Items", "application/grpc+proto", "", envelope(packed(t, compress.Gzip(), hessian())))},
		{Name: "rpcx gzip", Send: bombtest.OverTCP(bombtest.Bombs(), nil, rpcxFrame("Text", "Len", rpcxJSON, gzipped))},
		{Name: "rpcx lists", Send: bombtest.OverTCP(bombtest.Bombs()/2, nil, rpcxFrame("Text", "Items", rpcxMsgpack, packed(t, compress.Gzip(), []byte(maps))))},
		{Name: "JSON-RPC", Send: bombtest.OverTCP(bombtest.Bombs(), nil, []byte(`{"jsonrpc":"2.0","id":1,"method":"Text.Items","params":[`+list+`]}`+"\n"))},
		{Name: "JSON lists", Send: overHTTP2(bombtest.Bombs(), "/Text/Items", "application/json", "", []byte(list))},
		{Name: "net/rpc lists", Send: overNetRPC(t)},
		{Name: "small lists", Send: small},
	}
	for _, c := range []tandem.Compressor{compress.Gzip(), compress.Deflate(), snappy.Compressor(), zstd.Compressor()} {
		rows = append(rows, bombtest.Attack{Name: "native " + c.Name(), Send: native(packedAs{c, packed(t, c, make([]byte, bombtest.Size))})})
	}
	return rows
}

func packed(t *testing.T, c tandem.Compressor, message []byte) []byte {
	b, err := c.Compress(nil, message)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// many is the number of connections of some attacks.
const many = 16

// several runs an attack on n connections concurrently.
func several(n int, attack func(*testing.T, string)) func(*testing.T, string) {
	return func(t *testing.T, address string) { bombtest.Concurrently(n, func() { attack(t, address) }) }
}

// packedAs is a compressor whose output is always the same.
type packedAs struct {
	tandem.Compressor

	packed []byte
}

func (p packedAs) Compress(dst, _ []byte) ([]byte, error) { return append(dst, p.packed...), nil }

func native(c packedAs) func(*testing.T, string) {
	return func(t *testing.T, address string) {
		cl, err := client.Dial("tcp://"+address, client.WithCodec(codec.Raw()), client.WithCompression(client.Compression{Usual: c, Above: 1}),
			client.WithAttempts(client.Attempts{Budget: &policy.Budget{}}), client.WithTimeout(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		message := make([]byte, 1<<20) // only the compressed bytes are sent, not this
		bombtest.Concurrently(bombtest.Bombs(), func() { _, _ = client.Invoke[[]byte](context.Background(), cl, "Bytes.Len", &message) })
	}
}

// small sends messages of 4 KiB that take 1.3 MiB when decoded.
func small(t *testing.T, address string) {
	cl, err := client.Dial("tcp://"+address, client.WithCodec(codec.JSON()), client.WithAttempts(client.Attempts{Budget: &policy.Budget{}}), client.WithTimeout(time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var none struct{}
	list := make([]struct{}, 4<<10/3-1)
	bombtest.Concurrently(4*bombtest.Bombs(), func() { _ = cl.Call(context.Background(), "Text.Heavy", &list, &none) })
}

func envelope(packed []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{1}, uint32(len(packed))), packed...)
}

func overHTTP2(n int, path, kind, encoding string, body []byte) func(*testing.T, string) {
	return func(t *testing.T, address string) {
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		tr := &http.Transport{Protocols: protocols, MaxConnsPerHost: 1}
		defer tr.CloseIdleConnections()
		bombtest.Concurrently(min(n, 1+bombtest.MostSent()/len(body)), func() {
			req, err := http.NewRequest(http.MethodPost, "http://"+address+path, bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", kind)
			req.Header.Set("TE", "trailers")
			req.Header.Set("Grpc-Encoding", "gzip")
			if encoding != "" {
				req.Header.Set("Content-Encoding", encoding)
			}
			res, err := tr.RoundTrip(req)
			if err != nil {
				return // the server may close an attacker's connection
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		})
	}
}

// hessian returns a request in Triple's wrapper: a list of objects without fields.
func hessian() []byte {
	list := "WC\x01i\x90" + strings.Repeat("\x60", items/8) + "Z"
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "hessian4")
	return protowire.AppendString(protowire.AppendTag(b, 2, protowire.BytesType), list)
}

func overNetRPC(t *testing.T) func(*testing.T, string) {
	first, next := gobRequests(t)
	return bombtest.OverTCP(bombtest.Bombs()/8, first, next)
}

// gobRequests returns what net/rpc's client sends for its first call, with the descriptions
// of types, and for each later one.
func gobRequests(t *testing.T) (first, next []byte) {
	var b bytes.Buffer
	e := gob.NewEncoder(&b)
	type Request struct {
		ServiceMethod string
		Seq           uint64
	}
	for range 2 {
		first = next
		for _, v := range []any{Request{"Text.Items", 1}, make([]item, items)} {
			if err := e.Encode(v); err != nil {
				t.Fatal(err)
			}
		}
		next = bytes.Clone(b.Bytes())
		b.Reset()
	}
	return first, next
}

const (
	rpcxJSON    = 1 << 4
	rpcxMsgpack = 3 << 4
)

// rpcxFrame returns a request with a gzip-compressed payload.
func rpcxFrame(service, method string, format byte, payload []byte) []byte {
	const gzipped = 1 << 2
	b := append([]byte{8, 0, gzipped, format}, make([]byte, 12)...)
	for _, part := range [][]byte{[]byte(service), []byte(method), nil, payload} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	binary.BigEndian.PutUint32(b[12:], uint32(len(b)-16))
	return b
}

// TestServeForBombs is not a test, but the server process that [bombtest.Run] starts.
func TestServeForBombs(*testing.T) {
	bombtest.Serve(func(admit tandem.Interceptor) *server.Server {
		srv := server.New(server.WithProtocols(web.New(triple.Interface("Java")), rpcx.New(), netrpc.New(), jsonrpc.New()), server.WithInterceptors(admit),
			server.WithCodecs(codec.Raw()), server.WithCompressors(snappy.Compressor(), zstd.Compressor()))
		check(server.Handle(srv, "Text.Items", func(_ context.Context, list *[]item) (*int, error) {
			bombtest.Work(bombtest.Slow)
			return new(len(*list)), nil
		}))
		check(server.Handle(srv, "Java.Items", func(_ context.Context, list *[]item) (*int, error) {
			bombtest.Work(bombtest.Small)
			return new(len(*list)), nil
		}))
		check(server.Handle(srv, "Text.Heavy", func(_ context.Context, list *[]heavy) (*int, error) {
			bombtest.Work(bombtest.Small)
			return new(len(*list)), nil
		}))
		check(server.Handle(srv, "Bytes.Len", func(_ context.Context, b *[]byte) (*[]byte, error) {
			bombtest.Work(bombtest.Small)
			return &[]byte{byte(len(*b))}, nil
		}))
		return srv
	})
}
