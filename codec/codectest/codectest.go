// Package codectest (experimental) checks that a codec keeps the contract of [tandem.Codec].
// It is for tests of codecs, also of other modules:
//
//	func TestCodec(t *testing.T) {
//		codectest.Run(t, mycodec.Codec(), &Point{1, 2}, &Route{…})
//	}
package codectest

import (
	"bytes"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
)

// Run runs the checks as subtests. The samples are pointers to values that the
// codec can encode; the more of its features they use, the better. Decoded values
// must equal them, except for differences that encoding removes.
func Run(t *testing.T, c tandem.Codec, samples ...any) {
	t.Run("Name", func(t *testing.T) { checkName(t, c) })
	for _, v := range samples {
		t.Run(reflect.TypeOf(v).String(), func(t *testing.T) {
			t.Run("RoundTrip", func(t *testing.T) { checkRoundTrip(t, c, v) })
			t.Run("Appends", func(t *testing.T) { checkAppends(t, c, v) })
			t.Run("KeepsNothing", func(t *testing.T) { checkKeepsNothing(t, c, v) })
			t.Run("Damaged", func(t *testing.T) { checkDamaged(t, c, v) })
			t.Run("Nil", func(t *testing.T) { checkNil(t, c, v) })
			t.Run("Concurrent", func(t *testing.T) { checkConcurrent(t, c, v) })
		})
	}
	t.Run("Packed", func(t *testing.T) { checkPacked(t, c, samples) })
}

// Allocated returns how many bytes f allocated, on the heap and in total. Other
// goroutines are included, so bounds need some slack.
func Allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Bound returns how many bytes decoding n bytes may allocate: what package codec
// promises for flat data.
func Bound(n int) uint64 { return 16*uint64(n) + 64<<10 }

func encode(t *testing.T, c tandem.Codec, v any) []byte {
	t.Helper()
	b, err := codec.Append(c, nil, v)
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	return b
}

// fresh returns a pointer to a new zero value of the type that v points to.
func fresh(v any) any { return reflect.New(reflect.TypeOf(v).Elem()).Interface() }

// same compares values after they have been encoded and decoded: before, they may
// have differences that do not matter, such as the location of a time.
func same(t *testing.T, c tandem.Codec, got, want any) {
	t.Helper()
	if got, want := again(t, c, got), again(t, c, want); !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, want %+v", got, want)
	}
}

func again(t *testing.T, c tandem.Codec, v any) any {
	t.Helper()
	out := fresh(v)
	if err := codec.Decode(c, encode(t, c, v), out); err != nil {
		t.Fatalf("Decode: %v", err)
	}
	return out
}

func checkName(t *testing.T, c tandem.Codec) {
	if n := len(c.Name()); n == 0 || n > 32 {
		t.Fatalf("name %q has %d bytes, allowed 1 to 32", c.Name(), n)
	}
}

// checkRoundTrip encodes and decodes more than once, as the first time may differ.
func checkRoundTrip(t *testing.T, c tandem.Codec, v any) {
	for range 3 {
		got := fresh(v)
		if err := codec.Decode(c, encode(t, c, v), got); err != nil {
			t.Fatalf("Decode: %v", err)
		}
		same(t, c, got, v)
	}
}

// checkAppends checks that Append keeps the bytes of dst, with and without spare capacity.
func checkAppends(t *testing.T, c tandem.Codec, v any) {
	for _, spare := range []int{0, 1, 1 << 16} {
		dst := slices.Grow([]byte("head"), spare)
		out, err := codec.Append(c, dst, v)
		if err != nil || !bytes.HasPrefix(out, []byte("head")) {
			t.Fatalf("Append to %q = %q, %v", dst, out, err)
		}
		got := fresh(v)
		if err := codec.Decode(c, out[4:], got); err != nil {
			t.Fatalf("Decode: %v", err)
		}
		same(t, c, got, v)
	}
}

func checkKeepsNothing(t *testing.T, c tandem.Codec, v any) {
	src := encode(t, c, v)
	got := fresh(v)
	if err := codec.Decode(c, src, got); err != nil {
		t.Fatalf("Decode: %v", err)
	}
	for i := range src {
		src[i] = 0xAA
	}
	same(t, c, got, v)
}

// checkDamaged decodes every beginning of the message, and the message with
// every byte changed in several ways. None may panic or take much memory.
func checkDamaged(t *testing.T, c tandem.Codec, v any) {
	src := encode(t, c, v)
	tries := 0
	try := func(b []byte) {
		tries++
		_ = codec.Decode(c, b, fresh(v)) // may well succeed
	}
	got := Allocated(func() {
		for i := range src {
			try(src[:i])
			for _, x := range []byte{0x00, 0x7f, 0x80, 0xff, src[i] + 1, src[i] ^ 0x10} {
				b := bytes.Clone(src)
				b[i] = x
				try(b)
			}
		}
	})
	if limit := Bound(len(src)) * uint64(tries); got > limit {
		t.Fatalf("%d tries allocated %d bytes, limit %d", tries, got, limit)
	}
}

func checkNil(t *testing.T, c tandem.Codec, v any) {
	src := encode(t, c, v)
	if err := codec.Decode(c, src, nil); err != nil {
		t.Fatalf("Decode into nil: %v", err)
	}
	if b := encode(t, c, nil); len(b) != 0 {
		t.Fatalf("nil encodes to %q", b)
	}
	got := fresh(v)
	if err := codec.Decode(c, src, got); err != nil {
		t.Fatalf("Decode: %v", err)
	}
	if err := codec.Decode(c, nil, got); err != nil {
		t.Fatalf("Decode of the empty message: %v", err)
	}
	same(t, c, got, fresh(v))
	nilPointer := reflect.Zero(reflect.TypeOf(v)).Interface()
	if err := codec.Decode(c, src, nilPointer); err == nil {
		t.Fatalf("Decode into a nil %T succeeded", v)
	}
}

func checkConcurrent(t *testing.T, c tandem.Codec, v any) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				src, err := codec.Append(c, nil, v)
				if err != nil {
					t.Errorf("Append: %v", err)
				}
				if err := codec.Decode(c, src, fresh(v)); err != nil {
					t.Errorf("Decode: %v", err)
				}
			}
		})
	}
	wg.Wait()
}

func checkPacked(t *testing.T, c tandem.Codec, samples []any) {
	src := encode(t, c, tandem.Args(samples))
	if again := encode(t, c, tandem.Results(samples)); len(again) != len(src) {
		t.Fatalf("Args take %d bytes, Results %d", len(src), len(again))
	}
	args, results := make(tandem.Args, len(samples)), make(tandem.Results, len(samples))
	for i, v := range samples {
		args[i], results[i] = fresh(v), fresh(v)
	}
	for _, targets := range []any{args, results} {
		if err := codec.Decode(c, src, targets); err != nil {
			t.Fatalf("Decode into %T: %v", targets, err)
		}
	}
	for i, v := range samples {
		same(t, c, args[i], v)
		same(t, c, results[i], v)
	}
	if err := codec.Decode(c, src, args[1:]); err == nil {
		t.Fatal("Decode into too few targets succeeded")
	}
}
