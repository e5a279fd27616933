package floor

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/tandem-rpc/tandem/bench/message"
)

// Plain makes calls over a connection of its own, one at a time. It is not safe for
// concurrent use.
type Plain struct {
	conn net.Conn
	in   *frames
	out  []byte
}

// DialPlain connects to a server that runs ServePlain.
func DialPlain(addr string) (*Plain, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &Plain{conn: conn, in: newFrames(conn)}, nil
}

// Call sends req and decodes the response into reply. After an error the connection can't
// be used.
func (p *Plain) Call(req, reply *message.BenchmarkMessage) error {
	var err error
	if p.out, err = appendFrame(p.out[:0], nil, req); err != nil {
		return err
	}
	if _, err := p.conn.Write(p.out); err != nil {
		return err
	}
	frame, err := p.receive()
	if err != nil {
		return err
	}
	if err := reply.UnmarshalVT(frame); err != nil {
		return fmt.Errorf("floor: decoding an answer: %w", err)
	}
	return nil
}

func (p *Plain) receive() ([]byte, error) {
	for {
		frame, err := p.in.next()
		if frame != nil || err != nil {
			return frame, err
		}
		if err := p.in.fill(); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, fmt.Errorf("floor: waiting for an answer: %w", err)
		}
	}
}

// Close closes the connection.
func (p *Plain) Close() error { return p.conn.Close() }
