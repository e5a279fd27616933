// Package floor measures what a call costs without a framework: bytes on a loopback
// connection and the bench's message, decoded and encoded at both ends. It has no
// deadlines, cancellation, methods or errors except a broken connection. What a framework
// costs beyond it is the framework's.
//
// There are two floors. Plain has one connection for each caller and one call on it at a
// time. Mux has many callers on a connection, and does the three things that make that
// cheap: callers append to one buffer and the first of them writes for all, it lets the
// others run once before it writes, and the server answers all requests of one read with
// one write.
package floor

import (
	"encoding/binary"
	"fmt"

	"github.com/tandem-rpc/tandem/bench/message"
)

// A frame is its length (4 bytes, little-endian, not counting itself) and its content: in a
// mux frame a tag of 4 bytes that the server repeats, then the message.
const (
	lengthSize = 4
	tagSize    = 4
)

// readSize is the size of a connection's read buffer in bytes, and so the limit of a frame
// and of what one read can return.
const readSize = 64 << 10

// appendFrame appends a frame of tag and message to b.
func appendFrame(b, tag []byte, m *message.BenchmarkMessage) ([]byte, error) {
	start := len(b)
	b = append(b, 0, 0, 0, 0)
	b = append(b, tag...)
	b, err := message.AppendTo(b, m)
	if err != nil {
		return b[:start], fmt.Errorf("floor: encoding: %w", err)
	}
	binary.LittleEndian.PutUint32(b[start:], uint32(len(b)-start-lengthSize)) //nolint:gosec // a message has some 600 bytes
	return b, nil
}
