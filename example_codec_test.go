package tandem_test

import (
	"context"
	"encoding/xml"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// XML is a custom codec. Any type that can encode a value and decode it again can
// be one.
type XML struct{}

// Name returns the codec's name on the wire.
func (XML) Name() string { return "xml" }

// Append appends the encoding of v to dst.
func (XML) Append(dst []byte, v any) ([]byte, error) {
	text, err := xml.Marshal(v)
	return append(dst, text...), err
}

// Decode decodes src into v.
func (XML) Decode(src []byte, v any) error { return xml.Unmarshal(src, v) }

// Order is a message.
type Order struct {
	Item  string `xml:"item,attr"`
	Count int    `xml:"count,attr"`
}

// Both sides are given the codec; there is no global list of them.
func ExampleCodec() {
	var codec tandem.Codec = XML{}
	srv := server.New(server.WithCodecs(codec))
	check(server.Handle(srv, "Shop.Order", func(ctx context.Context, o *Order) (*string, error) {
		answer := fmt.Sprintf("%d × %s, ordered in %s", o.Count, o.Item, tandem.FromContext(ctx).Codec)
		return &answer, nil
	}))
	c, end := connect(srv, client.WithCodec(codec))
	defer end()

	order := &Order{"tea", 3}
	message, err := codec.Append(nil, order)
	fmt.Println(string(message), err)
	answer, err := client.Invoke[string](context.Background(), c, "Shop.Order", order)
	fmt.Println(*answer, err)
	// Output:
	// <Order item="tea" count="3"></Order> <nil>
	// 3 × tea, ordered in xml <nil>
}
