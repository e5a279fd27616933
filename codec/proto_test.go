package codec

import (
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
)

// likeProto has the methods of generated types.
type likeProto struct{ Name *string }

func (*likeProto) ProtoMessage() {}

// Gob refuses messages of Protocol Buffers, wherever they are, on both sides.
func TestGobRefusesProto(t *testing.T) {
	type inside struct{ List map[string][]*likeProto }
	type named struct{ Name *string }
	type open struct{ Any any }
	c, name := Gob(), ""
	plain, err := Append(c, nil, &named{&name})
	if err != nil {
		t.Fatal(err)
	}
	for what, v := range map[string]any{
		"a message": &likeProto{}, "a value": likeProto{}, "inside": inside{}, "in an interface": open{&likeProto{}},
		"several": tandem.Args{1, &likeProto{}}, "a pointer to one": new(*likeProto),
	} {
		for range 2 { // the second time, the type is in the cache
			_, err := Append(c, nil, v)
			checkRefusal(t, what, err)
		}
	}
	for range 2 {
		checkRefusal(t, "decoding", Decode(c, plain, new(likeProto)))
		checkRefusal(t, "decoding a new one", Decode(c, plain, new(*likeProto)))
		if err := Decode(c, plain, new(named)); err != nil {
			t.Error(err)
		}
	}
}

func checkRefusal(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "protobuf.Codec()") || !strings.Contains(err.Error(), "likeProto") {
		t.Errorf("%s: %v", what, err)
	}
}

func TestIsProto(t *testing.T) {
	for _, c := range []struct {
		v    any
		want bool
	}{
		{nil, false},
		{1, false},
		{likeProto{}, false}, // messages are pointers
		{&likeProto{}, true},
		{(*likeProto)(nil), true},
		{tandem.Args{}, false},
		{tandem.Args{1, &likeProto{}}, true},
	} {
		if got := IsProto(c.v); got != c.want {
			t.Errorf("%#v: %v", c.v, got)
		}
	}
}
