package codec

import (
	"github.com/tandem-rpc/tandem"
)

// Memory is asked before a message is decoded.
type Memory interface {
	// Expect is told about how many bytes of memory a value will take when it is decoded.
	// An error, which is returned as it is, keeps it from being decoded.
	Expect(bytes int64) error
}

// Estimator is a [tandem.Codec] that knows, without decoding it, about how much memory a
// message takes.
type Estimator interface {
	// DecodeWithin is Decode, and asks memory before it decodes.
	DecodeWithin(src []byte, v any, memory Memory) error
}

// DecodeWithin is [Decode] of a large message. If the codec is an [Estimator] memory is asked
// for what each value of the message takes; for others it is asked for as many bytes as the
// message has.
func DecodeWithin(c tandem.Codec, src []byte, v any, memory Memory) error {
	return Decode(Within(c, memory), src, v)
}

// Within returns a codec that decodes as [DecodeWithin] does.
func Within(c tandem.Codec, memory Memory) tandem.Codec { return &within{c, memory} }

// within is a codec that asks before it decodes.
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
