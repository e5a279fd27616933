package codec

// maxProtoDepth is how deep protobuf messages may nest: the limit of protobuf's
// own C++ and Java implementations.
const maxProtoDepth = 100

// Wire types of protobuf (https://protobuf.dev/programming-guides/encoding).
const (
	wireVarint = iota
	wireFixed64
	wireBytes
	wireStartGroup
	wireEndGroup
	wireFixed32
)

// protoTooDeep reports whether src, as a protobuf message, nests deeper than
// maxProtoDepth. Generated decoders recurse without a limit, and a stack that
// outgrows its bound ends the process.
//
// Strings and bytes look like messages on the wire, so it follows every field that
// could be a message, valid to its end or not, as a decoder would. ASCII text is not
// mistaken for one that is too deep: every level needs a length, and lengths below
// 128 allow 64 levels. Each byte is looked at once on its own level.
func protoTooDeep(src []byte) bool { return !protoWithin(src, maxProtoDepth) }

func protoWithin(src []byte, levels int) bool {
	for len(src) > 0 {
		if levels == 0 {
			return false
		}
		wire, field, rest, ok := nextProtoField(src)
		if !ok {
			return true // a decoder stops here too
		}
		switch wire {
		case wireStartGroup:
			levels--
		case wireEndGroup:
			levels++
		}
		if !protoWithin(field, levels-1) {
			return false
		}
		src = rest
	}
	return true
}

// nextProtoField returns the wire type of the first field, its bytes if it
// could be a message, and what follows it.
func nextProtoField(src []byte) (wire uint64, field, rest []byte, ok bool) {
	tag, n := protoVarint(src)
	if n == 0 || tag>>3 == 0 {
		return 0, nil, nil, false
	}
	wire, src = tag&7, src[n:]
	size := 0
	switch wire {
	case wireVarint:
		_, size = protoVarint(src)
		ok = size > 0
	case wireFixed64:
		size, ok = 8, len(src) >= 8
	case wireFixed32:
		size, ok = 4, len(src) >= 4
	case wireStartGroup, wireEndGroup:
		ok = true
	case wireBytes:
		length, n := protoVarint(src)
		if n == 0 || length > uint64(len(src)-n) { //nolint:gosec // not negative
			return 0, nil, nil, false
		}
		end := n + int(length) //nolint:gosec // at most len(src)
		return wire, src[n:end], src[end:], true
	}
	if !ok {
		return 0, nil, nil, false
	}
	return wire, nil, src[size:], true
}

// protoVarint reads a number as generated decoders do, which differ from
// [encoding/binary.Uvarint]: they drop the bits beyond 64 of a number of ten bytes. n is
// 0 if src does not begin with a number.
func protoVarint(src []byte) (v uint64, n int) {
	for i, b := range src[:min(len(src), 10)] {
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}
