package floor

import (
	"fmt"
	"io"
	"net"

	"github.com/tandem-rpc/tandem/bench/message"
)

// ServeStream writes payload to every connection, again and again, each time
// with one write, until ln is closed. It returns the listener's error once every
// connection has ended.
func ServeStream(ln net.Listener, payload []byte) error {
	var open connections
	defer open.closeAll()
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		open.start(conn, func() {
			for err := error(nil); err == nil; { // a broken connection is the client's to report
				message.Work()
				_, err = conn.Write(payload)
			}
		})
	}
}

// Stream is what is left of a stream without a framework: pieces of one size on
// a connection of their own. It is for one goroutine.
type Stream struct {
	conn net.Conn
	buf  []byte
}

// DialStream connects to a server that runs ServeStream with size bytes.
func DialStream(addr string, size int) (*Stream, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Stream{conn, make([]byte, size)}, nil
}

// Exchange reads the next piece into a buffer that the next Exchange uses again.
func (s *Stream) Exchange() ([]byte, error) {
	if _, err := io.ReadFull(s.conn, s.buf); err != nil {
		return nil, fmt.Errorf("floor: reading a piece: %w", err)
	}
	return s.buf, nil
}

// Close closes the connection.
func (s *Stream) Close() error { return s.conn.Close() }
