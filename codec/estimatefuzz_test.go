package codec_test

import (
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/codectest"
)

// fuzzEstimates decodes messages into values and checks that none allocates much more than
// was estimated: a slice that grows allocates five times its size at the end, and small
// messages may take a constant more.
func fuzzEstimates(f *testing.F, c tandem.Codec, fresh func() []any) {
	for _, v := range fresh() {
		if src, err := c.Append(nil, v); err == nil {
			f.Add(src)
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		for _, v := range fresh() {
			var e expected
			var err error
			got := codectest.Allocated(func() { err = codec.DecodeWithin(c, src, v, &e) })
			if err == nil && got > 5*uint64(e)+64*uint64(len(src))+64<<10 {
				t.Errorf("%T: estimate %d, allocated %d for %q", v, e, got, src)
			}
		}
	})
}

func FuzzJSONEstimate(f *testing.F) {
	f.Add([]byte(`[{"Name":"x","wides":[{},{}],"Far":{},"Tree":[1,{"a":[]}],"Map":{"k":{}},"Rest":[1]}]`))
	fuzzEstimates(f, codec.JSON(), func() []any { return []any{new(any), new([]holder), new(map[string]any), new([]*wide)} })
}

func FuzzGobEstimate(f *testing.F) {
	fuzzEstimates(f, codec.Gob(), func() []any { return []any{&[]wide{{A: 1}}, &[]*wide{{}}, &map[string]wide{"a": {}}, &holder2{}} })
}
