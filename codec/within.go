package codec

import (
	"github.com/tandem-rpc/tandem"
)

// Memory allows or refuses memory before a message is decoded.
type Memory interface {
	// Expect is called with about how many bytes of memory a value will take when it is
	// decoded. If it returns an error, the value is not decoded, and the error is returned
	// unchanged.
	Expect(bytes int64) error
}

// Estimator is a [tandem.Codec] that can estimate how much memory a message takes without
// decoding it.
type Estimator interface {
	// DecodeWithin is Decode, but calls memory.Expect before it decodes.
	DecodeWithin(src []byte, v any, memory Memory) error
}

// DecodeWithin is [Decode] of a large message. It calls memory.Expect for each value of the
// message: with the codec's estimate if the codec is an [Estimator], else with the length of
// the value's encoding.
func DecodeWithin(c tandem.Codec, src []byte, v any, memory Memory) error {
	return Decode(Within(c, memory), src, v)
}

// Within returns a codec that decodes as [DecodeWithin] does.
func Within(c tandem.Codec, memory Memory) tandem.Codec { return &within{c, memory} }

// within is a codec that calls Expect before it decodes.
type within struct {
	tandem.Codec

	memory Memory
}

func (w *within) Decode(src []byte, v any) error {
	if e, ok := w.Codec.(Estimator); ok {
		return e.DecodeWithin(src, v, w.memory)
	}
	if err := w.memory.Expect(int64(len(src))); err != nil {
		return err
	}
	return w.Codec.Decode(src, v)
}
