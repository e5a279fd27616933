package tandem

// Codec encodes values and decodes them again. It must be safe for concurrent
// use.
//
// Decode must not keep src, must not allocate much more than the length of src,
// whatever src declares, and must return an error for bad input, never panic.
type Codec interface {
	// Name returns the codec's name on the wire, the same on both sides: at most
	// 32 bytes.
	Name() string
	// Append appends the encoding of v to dst.
	Append(dst []byte, v any) ([]byte, error)
	// Decode decodes src into v, a pointer.
	Decode(src []byte, v any) error
}

// Compressor compresses whole messages. It must be safe for concurrent use.
type Compressor interface {
	// Name returns the compressor's name on the wire, the same on both sides: at
	// most 32 bytes.
	Name() string
	// Compress appends the compressed form of src to dst.
	Compress(dst, src []byte) ([]byte, error)
	// Decompress appends the original of src to dst. It stops with an error
	// as soon as it would produce more than limit bytes, having allocated
	// little more than that.
	Decompress(dst, src []byte, limit int) ([]byte, error)
}

// Args are the arguments of a method that takes none or several, in order.
//
//	c.Call(ctx, "Math.Divide", tandem.Args{7, 2}, tandem.Results{&quo, &rem})
type Args []any

// Results are pointers to the results of a method that has none or several
// (not counting its error), in order.
type Results []any
