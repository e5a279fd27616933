package client

import (
	"crypto/tls"
	"maps"
	"slices"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/compress"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/transport"
)

// named is a codec that has only a name.
type named struct {
	tandem.Codec
	name string
}

func (n named) Name() string { return n.name }

// What one client's options add or replace does not change the options of the next client.
func TestOptionsDoNotChangeOtherClients(t *testing.T) {
	before := builtin()
	codecs, compressors := slices.Clone(before.codecs), slices.Clone(before.compressors)
	transports, resolvers := maps.Clone(before.transports), maps.Clone(before.resolvers)
	o := builtin()
	for _, option := range []Option{
		WithCodec(named{codec.JSON(), "gob"}), WithCodec(nil, named{codec.JSON(), "other"}), WithCodec(nil, named{codec.JSON(), "json"}),
		WithCompression(Compression{Usual: compress.Gzip()}), WithCompression(Compression{Others: []tandem.Compressor{compress.Deflate()}}),
		WithTransport("unix", transport.TCP()), WithTransport("other", transport.TCP()), WithTLS(new(tls.Config)),
		WithResolver("dns", registry.Static()),
	} {
		option(&o)
	}
	after := builtin()
	if !slices.Equal(codecs, after.codecs) || !slices.Equal(compressors, after.compressors) {
		t.Errorf("%v and %v have become %v and %v", codecs, compressors, after.codecs, after.compressors)
	}
	if !maps.Equal(transports, after.transports) || !maps.Equal(resolvers, after.resolvers) {
		t.Errorf("%v and %v have become %v and %v", transports, resolvers, after.transports, after.resolvers)
	}
}
