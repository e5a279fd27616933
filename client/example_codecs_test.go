package client_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec/msgpack"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/compress/zstd"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// Both sides are given codecs and compressors in addition to those of the standard library;
// each call names the ones it uses.
func ExampleWithCodec_others() {
	srv := server.New(server.WithCodecs(msgpack.Codec()), server.WithCompressors(zstd.Compressor()))
	check(server.Handle(srv, "Text.How", func(ctx context.Context, text *string) (*string, error) {
		call := tandem.FromContext(ctx)
		how := fmt.Sprintf("%d bytes in %q, %q", len(*text), call.Codec, call.Compressor)
		return &how, nil
	}))
	network := transport.NewMemory()
	ln, err := network.Listen(context.Background(), "text")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()

	c, err := client.Dial("mem://text", client.WithTransport("mem", network),
		client.WithCodec(nil, msgpack.Codec()), client.WithCompression(client.Compression{Others: []tandem.Compressor{zstd.Compressor()}}))
	check(err)
	text := strings.Repeat("again and ", 1000)
	for _, opts := range [][]tandem.CallOption{
		nil,
		{client.Codec("msgpack"), client.Compressor("zstd")},
		{client.Codec("json"), client.Compressor("gzip")},
		{client.Codec("xml")},
	} {
		var how string
		err := c.Call(context.Background(), "Text.How", text, &how, opts...)
		fmt.Println(how, err)
	}
	check(c.Close())
	check(srv.Close())
	<-served
	// Output:
	// 10000 bytes in "gob", "" <nil>
	// 10000 bytes in "msgpack", "zstd" <nil>
	// 10000 bytes in "json", "gzip" <nil>
	//  unimplemented: no codec "xml" here: give it to WithCodec (a server: WithCodecs)
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

// On a slow network smaller messages are worth compressing, too.
func ExampleWithCompression_above() {
	gzip := &counting{Compressor: compress.Gzip()}
	c, stop := one(func(_ context.Context, text *string) (*int, error) {
		n := len(*text)
		return &n, nil
	}, client.WithCompression(client.Compression{Usual: gzip, Above: 100}))
	defer stop()
	for _, n := range []int{10, 20, 30} {
		size, err := client.Invoke[int](context.Background(), c, "It.Does", strings.Repeat("again", n))
		check(err)
		fmt.Println("compressed after", *size, "bytes:", gzip.messages.Load())
	}
	// Output:
	// compressed after 50 bytes: 0
	// compressed after 100 bytes: 1
	// compressed after 150 bytes: 2
}
