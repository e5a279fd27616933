package http2

import "encoding/binary"

// A frame begins with nine bytes: the length of its payload, its type, flags, and the number of its
// stream (RFC 9113, section 4.1).
const headLen = 9

// Types of frames (RFC 9113, section 6).
const (
	frameData         = 0x0
	frameHeaders      = 0x1
	framePriority     = 0x2
	frameReset        = 0x3
	frameSettings     = 0x4
	framePushPromise  = 0x5
	framePing         = 0x6
	frameGoAway       = 0x7
	frameWindowUpdate = 0x8
	frameContinuation = 0x9
)

// Flags of frames. A flag's meaning depends on the type of the frame.
const (
	flagEndStream  = 0x1
	flagAck        = 0x1
	flagEndHeaders = 0x4
	flagPadded     = 0x8
	flagPriority   = 0x20
)

// Settings (RFC 9113, section 6.5.2).
const (
	settingTableSize  = 0x1
	settingPush       = 0x2
	settingMaxStreams = 0x3
	settingWindow     = 0x4
	settingMaxFrame   = 0x5
	settingMaxHeader  = 0x6
)

// Sizes that hold until a peer sends other settings, and the largest that are allowed.
const (
	defaultWindow = 1<<16 - 1
	largestWindow = 1<<31 - 1
	minFrame      = 1 << 14
	largestFrame  = 1<<24 - 1
	largestID     = 1<<31 - 1
)

// Preface is what a client sends first (RFC 9113, section 3.4).
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// frame is a received frame. The payload is without padding.
type frame struct {
	kind    byte
	flags   byte
	stream  uint32
	payload []byte
	length  int // of the payload with its padding
}

func (f *frame) has(flag byte) bool { return f.flags&flag != 0 }

// parse returns the frame at the beginning of b. ok is false if it is not complete.
func parse(b []byte) (f frame, ok bool, err error) {
	if len(b) < headLen {
		return f, false, nil
	}
	length := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	f = frame{kind: b[3], flags: b[4], stream: binary.BigEndian.Uint32(b[5:]) & largestID, length: length}
	switch {
	case length > minFrame: // no other size was announced
		return f, false, fatal(FrameSizeError, "a frame of %d bytes, at most %d are allowed", length, minFrame)
	case len(b) < headLen+length:
		return f, false, nil
	}
	f.payload = b[headLen : headLen+length : headLen+length]
	return f, true, nil
}

// unpad removes the padding of a frame that may have some.
func (f *frame) unpad() error {
	if !f.has(flagPadded) {
		return nil
	}
	if len(f.payload) == 0 || int(f.payload[0]) >= len(f.payload) {
		return fatal(ProtocolError, "more padding than the frame has bytes")
	}
	f.payload = f.payload[1 : len(f.payload)-int(f.payload[0])]
	return nil
}

// appendHead appends the first nine bytes of a frame.
func appendHead(b []byte, length int, kind, flags byte, stream uint32) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(length)<<8|uint32(kind)) //nolint:gosec // a frame is smaller than 16 MiB
	return binary.BigEndian.AppendUint32(append(b, flags), stream)
}

// appendWord appends a frame whose payload is one number of 32 bits.
func appendWord(b []byte, kind byte, stream, word uint32) []byte {
	return binary.BigEndian.AppendUint32(appendHead(b, 4, kind, 0, stream), word)
}

func appendSetting(b []byte, id uint16, value uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16(b, id), value)
}

func appendGoAway(b []byte, last uint32, code Code, why string) []byte {
	b = appendHead(b, 8+len(why), frameGoAway, 0, 0)
	b = binary.BigEndian.AppendUint32(b, last)
	return append(binary.BigEndian.AppendUint32(b, uint32(code)), why...)
}
