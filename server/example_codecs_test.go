package server_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec/msgpack"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/compress/snappy"
	"github.com/tandem-rpc/tandem/server"
)

// A server has all codecs at once: every caller chooses its own. A caller learns what a server
// lacks without a call.
func ExampleWithCodecs() {
	srv := server.New(server.WithCodecs(msgpack.Codec()))
	check(srv.Register(new(Arith)))
	c, stop := start(srv, client.WithCodec(nil, msgpack.Codec()), client.WithCompression(client.Compression{Others: []tandem.Compressor{snappy.Compressor()}}))
	defer stop()
	for _, opt := range []tandem.CallOption{client.Codec("gob"), client.Codec("json"), client.Codec("msgpack"), client.Compressor("snappy")} {
		var r Reply
		err := c.Call(context.Background(), "Arith.Mul", &Args{6, 7}, &r, opt)
		fmt.Println(r.C, err)
	}
	// Output:
	// 42 <nil>
	// 42 <nil>
	// 42 <nil>
	// 0 unimplemented: example does not know compressor "snappy"; it has ["gzip" "deflate"]
}

// packed is a protocol whose clients send MessagePack.
type packed struct{ talk }

func (packed) Codecs() []tandem.Codec { return []tandem.Codec{msgpack.Codec()} }

// A protocol brings its own codecs, which tandem's own clients may use, too.
func ExampleCodecProvider() {
	srv := server.New(server.WithProtocols(packed{}))
	check(srv.Register(new(Arith)))
	for _, c := range server.CodecProvider(packed{}).Codecs() {
		fmt.Println(c.Name())
	}
	c, stop := start(srv, client.WithCodec(msgpack.Codec()))
	defer stop()
	fmt.Println(*must(client.Invoke[Reply](context.Background(), c, "Arith.Mul", &Args{6, 7})))
	// Output:
	// msgpack
	// {42}
}

// counting counts the messages that are compressed.
type counting struct {
	tandem.Compressor
	messages atomic.Int64
}

func (c *counting) Compress(dst, src []byte) ([]byte, error) {
	c.messages.Add(1)
	return c.Compressor.Compress(dst, src)
}

// A server decides from which size on its responses are compressed.
func ExampleWithCompressAbove() {
	gzip := &counting{Compressor: compress.Gzip()}
	srv := server.New(server.WithCompressors(gzip), server.WithCompressAbove(100))
	check(server.Handle(srv, "Text.Repeat", func(_ context.Context, n *int) (*string, error) {
		text := strings.Repeat("again", *n)
		return &text, nil
	}))
	c, stop := start(srv, client.WithCompression(client.Compression{Usual: compress.Gzip()}))
	defer stop()
	for _, n := range []int{10, 20, 30} {
		text := must(client.Invoke[string](context.Background(), c, "Text.Repeat", n))
		fmt.Println("compressed after", len(*text), "bytes:", gzip.messages.Load())
	}
	// Output:
	// compressed after 50 bytes: 0
	// compressed after 100 bytes: 1
	// compressed after 150 bytes: 2
}
