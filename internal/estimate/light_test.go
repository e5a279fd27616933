package estimate_test

import (
	"reflect"
	"testing"

	"github.com/tandem-rpc/tandem/internal/estimate"
)

type loop struct {
	Name string
	Next *loop
	Many []loop
}

// A message that needs no estimate can't take more than 32 KiB, whatever its bytes are.
func TestLight(t *testing.T) {
	for _, row := range []struct {
		v    any
		want int // bytes
	}{
		{"", 4 << 10},
		{[]byte(nil), 4 << 10},
		{struct{ A, B int }{}, 4 << 10},
		{[]string(nil), 32 << 10 / 24},
		{[]struct{ A, B, C, D, E, F, G, H int }{}, 32 << 10 / 96},
		{struct{ L []*[100]int }{}, 32 << 10 / (12 + 800)},
		{[][1000]int(nil), 2},
		{any(new(any)), 32 << 10 / 129},
		{map[string]int(nil), 32 << 10 / 100},
		{loop{}, 32 << 10 / 72},
		{struct{ hidden []any }{}, 4 << 10},
	} {
		if got := estimate.Light(reflect.TypeOf(row.v)); got != row.want {
			t.Errorf("%T: %d bytes, want %d", row.v, got, row.want)
		}
	}
	if estimate.Light(nil) != 4<<10 || estimate.Light(reflect.TypeFor[*[]string]()) != 32<<10/24 {
		t.Error("nil, or what a pointer points to")
	}
}
