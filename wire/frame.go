package wire

import "encoding/binary"

// Type is the type of a frame. Frames of unknown types are skipped.
type Type uint8

// The frame types.
const (
	TypeRequest  Type = 1 // opens a call; carries its header and the message's start
	TypeResponse Type = 2 // answers a call, accepts a stream, or ends one
	TypeData     Type = 3 // a further block of a message, or a stream's message
	TypeCancel   Type = 4 // the caller gives up
	TypeReset    Type = 5 // the callee ends the call early; carries a status
	TypeWindow   Type = 6 // more credit for a stream, or (stream 0) for all streams
	TypePing     Type = 7 // answered by a pong with the same 8 bytes
	TypePong     Type = 8
	TypeGoAway   Type = 9 // no further calls are accepted on this connection
)

// Flags qualify a frame.
type Flags uint8

// The flags.
const (
	FlagEnd        Flags = 0x01 // the message is complete with this block
	FlagLast       Flags = 0x02 // the sender has no more messages for this stream
	FlagOneWay     Flags = 0x04 // request: there is no response
	FlagStream     Flags = 0x08 // request: any number of messages follow, both ways
	FlagCompressed Flags = 0x10 // first block: the message is compressed
	FlagAnswer     Flags = 0x80 // the stream was opened by the receiver of this frame
)

// Stream is the number of a call on a connection, chosen by the side that
// opens it: an index in the low 16 bits and a generation above, so that a late
// response never reaches another call. 0 is the connection itself.
type Stream uint64

const maxStream = 1<<56 - 1

// MakeStream returns the number of an index and a generation. Bits of the generation
// past the fortieth are dropped.
func MakeStream(index uint16, generation uint64) Stream {
	return Stream((generation<<16 | uint64(index)) & maxStream)
}

// Index returns the index of the call's slot.
func (s Stream) Index() uint16 { return uint16(s) } //nolint:gosec // the low bits are meant

// Header is the fixed header of every frame: 3 bytes length, 1 type, 1 flags, 7
// stream number, all little-endian.
type Header struct {
	Length int // bytes of the payload that follows
	Type   Type
	Flags  Flags
	Stream Stream
}

// AppendHeader appends the 12 bytes of h. Length must not exceed [MaxBlock].
func AppendHeader(dst []byte, h Header) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(h.Length)|uint32(h.Type)<<24) //nolint:gosec // at most MaxBlock
	return binary.LittleEndian.AppendUint64(dst, uint64(h.Stream)<<8|uint64(h.Flags))
}

// PutHeader writes h over the first 12 bytes of b.
func PutHeader(b []byte, h Header) {
	binary.LittleEndian.PutUint32(b, uint32(h.Length)|uint32(h.Type)<<24) //nolint:gosec // at most MaxBlock
	binary.LittleEndian.PutUint64(b[4:], uint64(h.Stream)<<8|uint64(h.Flags))
}

// ParseHeader reads a header from the first [HeaderLen] bytes of b. It panics if b
// is shorter.
func ParseHeader(b []byte) (Header, error) {
	_ = b[HeaderLen-1]
	first := binary.LittleEndian.Uint32(b)
	second := binary.LittleEndian.Uint64(b[4:])
	h := Header{
		Length: int(first & 0xffffff),
		Type:   Type(first >> 24),
		Flags:  Flags(second), //nolint:gosec // the low byte is meant
		Stream: Stream(second >> 8),
	}
	if h.Length > MaxBlock {
		return h, violation("frame of %d bytes, limit %d", h.Length, MaxBlock)
	}
	return h, nil
}

// AppendWindow appends a whole window frame: n more bytes of credit.
func AppendWindow(dst []byte, s Stream, f Flags, n uint32) []byte {
	dst = AppendHeader(dst, Header{4, TypeWindow, f, s})
	return binary.LittleEndian.AppendUint32(dst, n)
}

// ParseWindow reads a window frame's payload.
func ParseWindow(b []byte) (uint32, error) {
	if len(b) != 4 {
		return 0, violation("window frame of %d bytes, want 4", len(b))
	}
	n := binary.LittleEndian.Uint32(b)
	if n == 0 || n > MaxWindow {
		return 0, violation("window of %d bytes, allowed 1 to %d", n, MaxWindow)
	}
	return n, nil
}

// AppendPing appends a whole ping or pong frame.
func AppendPing(dst []byte, t Type, payload [8]byte) []byte {
	dst = AppendHeader(dst, Header{len(payload), t, 0, 0})
	return append(dst, payload[:]...)
}

// ParsePing reads a ping's or pong's payload.
func ParsePing(b []byte) (payload [8]byte, err error) {
	if len(b) != len(payload) {
		return payload, violation("ping of %d bytes, want %d", len(b), len(payload))
	}
	return [8]byte(b), nil
}

// Reason says why a side accepts no more calls on a connection.
type Reason uint8

// The reasons.
const (
	ReasonDrain     Reason = 0 // planned: running calls are finished first
	ReasonViolation Reason = 1 // the peer violated the protocol
	ReasonVersion   Reason = 2 // no common version
	ReasonOverload  Reason = 3 // the peer does not read, or floods
)

// GoAway is the payload of a goaway frame.
type GoAway struct {
	// Accepted counts the requests, in wire order, that were or will be
	// handled. Requests with a higher ordinal were not executed.
	Accepted uint64
	Reason   Reason
	Message  string // for logs; at most 1 KiB
}

// AppendGoAway appends a whole goaway frame. A message over 1 KiB is cut.
func AppendGoAway(dst []byte, g GoAway) []byte {
	msg := g.Message[:min(len(g.Message), MaxName)]
	dst = AppendHeader(dst, Header{9 + len(msg), TypeGoAway, 0, 0})
	dst = binary.LittleEndian.AppendUint64(dst, g.Accepted)
	dst = append(dst, byte(g.Reason))
	return append(dst, msg...)
}

// ParseGoAway reads a goaway frame's payload.
func ParseGoAway(b []byte) (GoAway, error) {
	if len(b) < 9 || len(b) > 9+MaxName {
		return GoAway{}, violation("goaway of %d bytes, want 9 to %d", len(b), 9+MaxName)
	}
	return GoAway{binary.LittleEndian.Uint64(b), Reason(b[8]), string(b[9:])}, nil
}
