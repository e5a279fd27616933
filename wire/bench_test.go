package wire

import (
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Each benchmark writes or reads the head of a frame; none may allocate.

func BenchmarkHeader(b *testing.B) {
	h := Header{581, TypeRequest, FlagEnd, MakeStream(7, 3)}
	buf := AppendHeader(nil, h)
	b.Run("Append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf = AppendHeader(buf[:0], h)
		}
	})
	b.Run("Parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParseHeader(buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkRequest(b *testing.B) {
	pairs, err := AppendMetadata(nil, tandem.Metadata{"trace": {"4bf92f3577b34da6a3ce929d0e0e4736"}})
	if err != nil {
		b.Fatal(err)
	}
	for name, r := range map[string]Request{
		"known": {Name: Name{Number: 3}, Timeout: 5 * time.Second}, // a call in the steady state
		"first": {Name: Name{Text: []byte("Service.Method"), Define: true}, Timeout: 5 * time.Second},
		"all":   {Name: Name{Number: 3}, Timeout: 5 * time.Second, Attempt: 1, Compressor: 1, Metadata: pairs, Size: 1 << 20},
	} {
		buf := AppendRequest(nil, &r)
		b.Run("Append/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf = AppendRequest(buf[:0], &r)
			}
		})
		b.Run("Parse/"+name, func(b *testing.B) {
			b.ReportAllocs()
			var got Request
			for b.Loop() {
				if _, err := ParseRequest(buf, &got); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkResponse(b *testing.B) {
	status := AppendStatus(nil, &Status{Code: tandem.NotFound, Message: "no such thing"})
	for name, r := range map[string]Response{
		"plain": {},
		"load":  {HasLoad: true, Load: Load{InFlight: 3}}, // the first of a write
		"error": {Status: status},
	} {
		buf := AppendResponse(nil, &r)
		b.Run("Append/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf = AppendResponse(buf[:0], &r)
			}
		})
		b.Run("Parse/"+name, func(b *testing.B) {
			b.ReportAllocs()
			var got Response
			for b.Loop() {
				if _, err := ParseResponse(buf, &got); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestAllocations checks that writing and reading heads does not allocate.
func TestAllocations(t *testing.T) {
	request := AppendRequest(nil, &Request{Name: Name{Number: 3}, Timeout: 5 * time.Second})
	response := AppendResponse(nil, &Response{HasLoad: true, Load: Load{InFlight: 3}})
	buf := make([]byte, 0, 64)
	for name, f := range map[string]func() error{
		"header": func() error {
			_, err := ParseHeader(AppendHeader(buf, Header{581, TypeRequest, FlagEnd, 7}))
			return err
		},
		"request": func() error {
			var r Request
			_, err := ParseRequest(request, &r)
			_ = AppendRequest(buf, &r)
			return err
		},
		"response": func() error {
			var r Response
			_, err := ParseResponse(response, &r)
			_ = AppendResponse(buf, &r)
			return err
		},
	} {
		allocated := testing.AllocsPerRun(100, func() {
			if err := f(); err != nil {
				t.Fatal(err)
			}
		})
		if allocated > 0 {
			t.Errorf("%s: %v allocations", name, allocated)
		}
	}
}
