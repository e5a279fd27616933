package http2

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/net/http2/hpack"
)

// Whatever headers are sent, and however large the peer lets the table be, it reads what was sent.
func TestRepeatedHeaders(t *testing.T) {
	m := NewServer(small)
	m.Take(nil)
	var got []Field
	d := hpack.NewDecoder(tableSize, func(f Field) { got = append(got, f) })
	random := rand.New(rand.NewPCG(1, 2))
	reused := 0
	for i := range 20000 {
		var fields []Field
		for k := range random.IntN(9) {
			f := Field{Name: fmt.Sprint("name", k), Value: "value"}
			switch random.IntN(40) {
			case 0:
				f.Value = fmt.Sprint(random.IntN(100))
			case 1:
				f.Sensitive = true
			}
			fields = append(fields, f)
		}
		if random.IntN(500) == 0 {
			if err := m.set(settingTableSize, uint32(random.IntN(tableSize))); err != nil {
				t.Fatal(err)
			}
		}
		if m.repeated.begins(fields) {
			reused++
		}
		m.appendFields(fields)
		got = nil
		if _, err := d.Write(m.Output()); err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, fields) {
			t.Fatalf("block %d: %v, want %v", i, got, fields)
		}
		m.Take(m.Output())
	}
	if reused < 1000 {
		t.Errorf("%d blocks began as one before", reused)
	}
}
