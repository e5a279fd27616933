package codec_test

import (
	"encoding/gob"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/codectest"
)

type wide struct{ A, B, C, D, E, F, G, H int }

type holder struct {
	Name  string
	Wides []wide `json:"wides"`
	Far   *wide
	Tree  any
	Map   map[string]wide
	Rest  json.RawMessage
	When  time.Time
	*embedded
}

type embedded struct{ Far2 []*wide }

func TestJSONEstimates(t *testing.T) {
	many := func(s string) string { return "[" + strings.Repeat(s+",", 20_000) + s + "]" }
	var keys strings.Builder
	for i := range 20_000 {
		keys.WriteString(`,"` + time.Duration(i).String() + `":{"A":1}`)
	}
	for name, row := range map[string]struct {
		src string
		v   any
	}{
		"empty structs":       {many("{}"), new([]wide)},
		"pointers":            {many("{}"), new([]*wide)},
		"numbers":             {many("1"), new([]int)},
		"bytes":               {many("1"), new([]byte)},
		"anything, objects":   {many(`{"a":1}`), new(any)},
		"anything, lists":     {many("[]"), new(any)},
		"anything, numbers":   {many("1"), new([]any)},
		"texts":               {many(`"abcdefgh"`), new([]string)},
		"times":               {many(`"2026-01-02T03:04:05Z"`), new([]time.Time)},
		"a field":             {`{"wides":` + many("{}") + "}", new(holder)},
		"a field in capitals": {`{"WIDES":` + many("{}") + "}", new(holder)},
		"an escaped field":    {`{"\u0077ides":` + many("{}") + "}", new(holder)},
		"raw":                 {many(`{"x":1}`), new([]json.RawMessage)},
		"a map":               {`{"x":{}` + keys.String() + "}", new(map[string]wide)},
		"a map of anything":   {`{"x":{}` + keys.String() + "}", new(any)},
		"holders":             {many(`{"Name":"x","Far":{},"Tree":[1,"a"]}`), new([]holder)},
		"maps":                {many(`{"Map":{"a":{}}}`), new([]holder)},
	} {
		estimates(t, name, codec.JSON(), []byte(row.src), row.v)
	}
}

func TestGobEstimates(t *testing.T) {
	gob.Register(wide{})
	many := make([]wide, 20_000)
	far := make([]*wide, 20_000)
	maps := map[int]wide{}
	var anything []any
	for i := range far {
		far[i], maps[i] = new(wide), wide{A: i}
		anything = append(anything, wide{B: i})
	}
	for name, row := range map[string]struct{ in, out any }{
		"structs":  {many, new([]wide)},
		"pointers": {far, new([]*wide)},
		"numbers":  {make([]int, 20_000), new([]int)},
		"bytes":    {make([]byte, 20_000), new([]byte)},
		"texts":    {strings.Split(strings.Repeat("abcdefgh,", 20_000), ","), new([]string)},
		"maps":     {maps, new(map[int]wide)},
		"anything": {anything, new([]any)},
		"a field":  {struct{ Wides []wide }{many}, new(holder2)},
	} {
		src, err := codec.Gob().Append(nil, row.in)
		if err != nil {
			t.Fatal(err)
		}
		estimates(t, name, codec.Gob(), src, row.out)
	}
}

type holder2 struct{ Wides []wide }

// expected is a Memory that records the bytes of Expect.
type expected int64

func (e *expected) Expect(n int64) error {
	*e += expected(n)
	return nil
}

// estimates compares the estimate with the bytes that decoding allocates, which are up to
// five times those in use at the end where a slice grows.
func estimates(t *testing.T, name string, c tandem.Codec, src []byte, v any) {
	t.Helper()
	var e expected
	var err error
	got := codectest.Allocated(func() { err = codec.DecodeWithin(c, src, v, &e) })
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	t.Logf("%s: %d bytes: estimate %d, allocated %d", name, len(src), e, got)
	if uint64(e) < got/5 {
		t.Errorf("%s: estimate %d, allocated %d", name, e, got)
	}
	if uint64(e) > 4*got+uint64(len(src)) {
		t.Errorf("%s: an estimate of %d bytes is far more than the %d that were allocated", name, e, got)
	}
}
