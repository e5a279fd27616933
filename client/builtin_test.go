package client

import (
	"crypto/tls"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
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
		WithCodec(named{codec.JSON(), "gob"}), WithCodecs(named{codec.JSON(), "other"}), WithCodecs(named{codec.JSON(), "json"}),
		WithCompressor(compress.Gzip()), WithCompressors(compress.Deflate()),
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

// A view with a few instances is searched, one with many has maps; both find all of their
// instances and no others.
func TestViewFinds(t *testing.T) {
	for _, n := range []int{0, 1, few, few + 1, 100} {
		v := new(view)
		for i := range n {
			v.nodes = append(v.nodes, &balance.Node{Instance: tandem.Instance{ID: fmt.Sprint(i)}})
			v.members = append(v.members, new(member))
		}
		v.index()
		for i, node := range v.nodes {
			if v.member(node) != v.members[i] || v.named(node.Instance.ID) != node || v.memberOf(node.Instance.ID) != v.members[i] {
				t.Errorf("%d of %d is not found", i, n)
			}
		}
		if other := new(balance.Node); v.member(other) != nil || v.named("") != nil || v.memberOf("other") != nil {
			t.Errorf("something is found that is not among %d", n)
		}
		if got := len(slices.Collect(v.all())); got != n {
			t.Errorf("%d of %d", got, n)
		}
	}
}
