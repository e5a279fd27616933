package dispatch

import (
	"context"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
)

// codecBody is a body in a real codec.
type codecBody struct {
	codec   tandem.Codec
	in, out []byte
}

func (b *codecBody) Stream() tandem.MessageStream { return nil }
func (b *codecBody) Decode(v any) error           { return codec.Decode(b.codec, b.in, v) }

func (b *codecBody) Encode(v any) (err error) {
	b.out, err = codec.Append(b.codec, nil, v)
	return err
}

// TestCodecs sends several values, nil pointers and nothing in real codecs.
func TestCodecs(t *testing.T) {
	table := New(Config{})
	must(t, table.RegisterFunc("S.Two", func(n int, p *Point) (int, *Point, *Point, error) { return n, p, nil, nil }))
	must(t, table.RegisterFunc("S.Nil", func() (*Point, error) { return nil, nil }))
	must(t, table.RegisterFunc("S.Nothing", func() error { return nil }))
	for _, c := range []tandem.Codec{codec.JSON(), codec.Gob()} {
		call := func(name string, args, results any) {
			t.Helper()
			in, err := codec.Append(c, nil, args)
			must(t, err)
			b := &codecBody{codec: c, in: in}
			must(t, table.Lookup(name).Func(context.Background(), &tandem.Call{Method: name, Body: b}))
			must(t, codec.Decode(c, b.out, results))
		}
		var n int
		var p, q *Point
		call("S.Two", tandem.Args{5, Point{X: 6}}, tandem.Results{&n, &p, &q})
		if n != 5 || p.X != 6 || q != nil {
			t.Errorf("%s: got %v, %v, %v", c.Name(), n, p, q)
		}
		var r Point
		call("S.Nil", tandem.Args{}, &r)
		call("S.Nothing", tandem.Args{}, tandem.Results{})
		call("S.Nothing", tandem.Args{}, nil)
	}
}
