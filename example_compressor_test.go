package tandem_test

import (
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/server"
)

// Phrases compresses with words that both sides know beforehand, which helps when
// messages are small and alike.
type Phrases []byte

// Name returns the compressor's name on the wire.
func (Phrases) Name() string { return "phrases" }

// Compress appends to dst.
func (p Phrases) Compress(dst, src []byte) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	w, err := flate.NewWriterDict(out, flate.BestCompression, p)
	if err != nil {
		return dst, err
	}
	_, err = w.Write(src)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}

// Decompress appends to dst, and stops when it has seen that limit is exceeded.
func (p Phrases) Decompress(dst, src []byte, limit int) ([]byte, error) {
	out := bytes.NewBuffer(dst)
	n, err := io.Copy(out, io.LimitReader(flate.NewReaderDict(bytes.NewReader(src), p), int64(limit)+1))
	if err == nil && n > int64(limit) {
		err = compress.ErrTooLarge
	}
	return out.Bytes(), err
}

func ExampleCompressor() {
	var phrases tandem.Compressor = Phrases("the weather in will be fine tomorrow")
	srv := server.New(server.WithCompressors(phrases), server.WithCompressAbove(0))
	check(server.Handle(srv, "Weather.In", func(ctx context.Context, city *string) (*string, error) {
		answer := "the weather in " + *city + " will be fine tomorrow: " + tandem.FromContext(ctx).Compressor
		return &answer, nil
	}))
	c, end := connect(srv, client.WithCompression(client.Compression{Usual: phrases, Above: 1}))
	defer end()
	answer, err := client.Invoke[string](context.Background(), c, "Weather.In", "Rome")
	fmt.Println(*answer, err)

	packed, err := phrases.Compress(nil, []byte(*answer))
	fmt.Println("less than half:", len(packed) < len(*answer)/2, err)
	_, err = phrases.Decompress(nil, packed, 10)
	fmt.Println(errors.Is(err, compress.ErrTooLarge))
	// Output:
	// the weather in Rome will be fine tomorrow: phrases <nil>
	// less than half: true <nil>
	// true
}
