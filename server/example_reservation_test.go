package server_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// parcel is a protocol whose requests are a 4, their size in four bytes, and a compressed text
// in JSON. Its response says how many bytes of memory the text needs.
type parcel struct{}

func (parcel) Name() string { return "parcel" }

func (parcel) Match(first []byte) server.Verdict {
	if first[0] == 4 {
		return server.Yes
	}
	return server.No
}

func (parcel) Serve(ctx context.Context, c *server.Conn) error {
	r := bufio.NewReader(c)
	for {
		if _, err := r.ReadByte(); err != nil {
			return nil //nolint:nilerr // there is no other request
		}
		var size uint32
		if err := binary.Read(r, binary.BigEndian, &size); err != nil {
			return err
		}
		call := &tandem.Call{Method: "Parcel.Open", Codec: "json"}
		held := c.Reserve(ctx).For(call)
		if err := held.Await(int64(size), time.Time{}); err != nil { // before the first of them is read
			return err
		}
		packed := make([]byte, size)
		if _, err := io.ReadFull(r, packed); err != nil {
			return err
		}
		b := &parcelBody{packed: packed, held: held, limit: c.MaxMessage()}
		call.Body = b
		c.Go(ctx, call, func(err error) {
			held.Release()
			_ = c.Send(func(dst []byte) ([]byte, error) { return fmt.Appendln(dst, b.result, tandem.CodeOf(err)), nil })
		})
	}
}

// parcelBody is a request of one call, and its result.
type parcelBody struct {
	packed []byte
	held   *server.Reservation
	limit  int
	result any
}

func (b *parcelBody) Decode(v any) error {
	plain, err := b.held.Decompress(compress.Gzip(), b.packed, b.limit)
	if err != nil {
		return server.Unfit(err)
	}
	b.held.Return(int64(len(b.packed))) // it is not needed any more
	b.packed = nil
	if text, ok := v.(*string); ok && plain[0] != '"' { // a decoder of your own reserves what it takes
		if err := b.held.Expect(int64(len(plain))); err != nil {
			return err
		}
		*text = string(plain)
		return nil
	}
	return server.Unfit(codec.Decode(b.held.Codec(codec.JSON(), plain), plain, v))
}

func (b *parcelBody) Encode(v any) error {
	b.result = *v.(*int) //nolint:forcetypeassert // it is served with this result only
	return nil
}

func (*parcelBody) Stream() tandem.MessageStream { return nil }

// A protocol of your own reserves the memory of its requests: the declared size before a
// request is read, and what decompressing and decoding take.
func ExampleConn_Reserve() {
	srv := server.New(server.WithProtocols(parcel{}), server.WithMemory(8<<20), server.WithMaxDecoded(1<<20))
	check(server.Handle(srv, "Parcel.Open", func(_ context.Context, text *string) (*int, error) {
		return new(len(*text)), nil
	}))
	network := transport.NewMemory()
	ln, err := network.Listen(context.Background(), "parcels")
	check(err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := network.Dial(context.Background(), "parcels")
	check(err)
	answers := bufio.NewScanner(c)
	for _, n := range []int{100, 2 << 20} {
		text, err := codec.JSON().Append(nil, strings.Repeat("x", n))
		check(err)
		packed, err := compress.Gzip().Compress([]byte{4, 0, 0, 0, 0}, text)
		check(err)
		binary.BigEndian.PutUint32(packed[1:], uint32(len(packed)-5))
		_, err = c.Write(packed)
		check(err)
		answers.Scan()
		fmt.Println(answers.Text())
	}
	check(c.Close())
	check(srv.Close())
	<-served
	// Output:
	// 100 ok
	// <nil> resource exhausted
}
