package wire

import (
	"encoding/binary"
)

// Magic is the start of each side's byte stream. No other protocol on a shared
// port starts with its first byte: it is no UTF-8 lead byte, no gob length, no
// TLS record, and none of HTTP, JSON, rpcx (08), Thrift (80, 82) or Dubbo (DA).
const Magic = "\x93TND"

// PrefaceLen is the length of a preface without its settings.
const PrefaceLen = 8

// MaxSettings is the largest length of the settings in a preface.
const MaxSettings = 8 << 10

// MaxListed is how many codecs, and how many compressors, a side may name, and
// MaxListedName how long a name may be, in bytes.
const (
	MaxListed     = 64
	MaxListedName = 32
)

// Settings are what a side accepts. Each side sends its own in its preface.
type Settings struct {
	MaxMessage   uint64 // bytes of the largest message that the side accepts, on the wire and decompressed
	MaxOpen      uint64 // calls that the peer may have open at a time
	StreamWindow uint64 // initial credit of each stream towards the side, in bytes
	ConnWindow   uint64 // initial credit of all streams towards the side together, in bytes

	// Codecs and Compressors are the names of those that the side knows. Calls towards
	// it refer to them by their place in these lists: codecs from 0, compressors from 1.
	Codecs      []string
	Compressors []string
}

// Setting identifiers. Unknown ones are skipped.
const (
	settingMaxMessage   = 1
	settingMaxOpen      = 2
	settingStreamWindow = 3
	settingConnWindow   = 4
	settingCodec        = 5 // one entry for each codec, in order
	settingCompressor   = 6
)

// DefaultSettings returns the protocol's defaults, which apply to settings that a
// peer leaves out. They have no codecs.
func DefaultSettings() Settings {
	return Settings{
		MaxMessage:   DefaultMaxMessage,
		MaxOpen:      DefaultMaxOpen,
		StreamWindow: DefaultStreamWindow,
		ConnWindow:   DefaultConnWindow,
	}
}

// AppendPreface appends a whole preface: magic, version, settings.
func AppendPreface(dst []byte, s Settings) []byte {
	dst = append(dst, Magic...)
	dst = append(dst, Version, 0, 0, 0)
	start := len(dst)
	dst = appendNumber(dst, settingMaxMessage, s.MaxMessage)
	dst = appendNumber(dst, settingMaxOpen, s.MaxOpen)
	dst = appendNumber(dst, settingStreamWindow, s.StreamWindow)
	dst = appendNumber(dst, settingConnWindow, s.ConnWindow)
	for _, name := range s.Codecs {
		dst = appendSetting(dst, settingCodec, []byte(name))
	}
	for _, name := range s.Compressors {
		dst = appendSetting(dst, settingCompressor, []byte(name))
	}
	binary.LittleEndian.PutUint16(dst[start-2:], uint16(len(dst)-start)) //nolint:gosec // lists are bounded far below
	return dst
}

func appendNumber(dst []byte, id, v uint64) []byte {
	return appendSetting(dst, id, binary.AppendUvarint(nil, v))
}

func appendSetting(dst []byte, id uint64, value []byte) []byte {
	return appendPrefixed(binary.AppendUvarint(dst, id), value)
}

// ParsePrefaceHead reads the first [PrefaceLen] bytes, which must be there, and
// returns the peer's version and the length of the settings that follow.
func ParsePrefaceHead(b []byte) (version uint8, settings int, err error) {
	_ = b[PrefaceLen-1]
	if string(b[:4]) != Magic {
		return 0, 0, violation("preface starts with % x, want % x", b[:4], Magic)
	}
	settings = int(binary.LittleEndian.Uint16(b[6:]))
	if settings > MaxSettings {
		return 0, 0, violation("settings of %d bytes, limit %d", settings, MaxSettings)
	}
	if b[4] == 0 {
		return 0, 0, violation("version 0")
	}
	return b[4], settings, nil
}

// ParseSettings reads the settings of a preface.
func ParseSettings(b []byte) (Settings, error) {
	s := DefaultSettings()
	for len(b) > 0 {
		id, rest, err := uvarint(b, "setting")
		if err != nil {
			return s, err
		}
		value, rest, err := lengthPrefixed(rest, MaxSettings, "setting")
		if err != nil {
			return s, err
		}
		if err := s.set(id, value); err != nil {
			return s, err
		}
		b = rest
	}
	return s, nil
}

func (s *Settings) set(id uint64, value []byte) error {
	switch id {
	case settingMaxMessage:
		return setNumber(&s.MaxMessage, value, 1, 1<<40, "largest message")
	case settingMaxOpen:
		return setNumber(&s.MaxOpen, value, 1, MaxOpenLimit, "open calls")
	case settingStreamWindow:
		return setNumber(&s.StreamWindow, value, MinWindow, MaxWindow, "stream window")
	case settingConnWindow:
		return setNumber(&s.ConnWindow, value, MinWindow, MaxWindow, "connection window")
	case settingCodec:
		return addName(&s.Codecs, value, "codec")
	case settingCompressor:
		return addName(&s.Compressors, value, "compressor")
	}
	return nil
}

func setNumber(dst *uint64, value []byte, low, high uint64, what string) error {
	v, rest, err := uvarint(value, what)
	if err != nil || len(rest) > 0 || v < low || v > high {
		return violation("setting %s: % x is no number from %d to %d", what, value[:min(len(value), 16)], low, high)
	}
	*dst = v
	return nil
}

func addName(list *[]string, value []byte, what string) error {
	if len(value) == 0 || len(value) > MaxListedName || len(*list) >= MaxListed {
		return violation("%s: name of %d bytes as number %d, limits %d and %d", what, len(value), len(*list)+1, MaxListedName, MaxListed)
	}
	*list = append(*list, string(value))
	return nil
}
