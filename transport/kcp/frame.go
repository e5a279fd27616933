package kcp

import (
	"encoding/binary"
	"fmt"
)

// kind is the meaning of a frame without bytes.
type kind byte

const (
	end kind = iota
	alive
	hello
	bye
	kinds // number of kinds
)

const (
	headLen  = 2
	maxFrame = 16 << 10 // bytes of the frames that we send
)

// control returns the frame of kind k.
func control(k kind) []byte { return []byte{0, 0, byte(k)} }

// parser finds frames in the bytes of a connection, in pieces of any size.
type parser struct {
	head [headLen]byte
	have int // bytes of head that have been read
	left int // bytes of the frame that have not been read
}

// feed calls data for pieces of frames, which must not be kept after it returns, and said for
// frames without bytes. It stops at the first error.
func (p *parser) feed(b []byte, data func([]byte) error, said func(kind) error) error {
	for len(b) > 0 {
		switch {
		case p.left > 0:
			n := min(p.left, len(b))
			if err := data(b[:n]); err != nil {
				return err
			}
			p.left -= n
			b = b[n:]
		case p.have < headLen:
			n := copy(p.head[p.have:], b)
			p.have += n
			b = b[n:]
			if p.have == headLen && p.length() > 0 {
				p.left, p.have = p.length(), 0
			}
		default: // a head of zero: one byte more
			k := kind(b[0])
			if k >= kinds {
				return fmt.Errorf("kcp: a frame of the unknown kind %d", k)
			}
			p.have = 0
			b = b[1:]
			if err := said(k); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *parser) length() int { return int(binary.LittleEndian.Uint16(p.head[:])) }
