package floor

import (
	"fmt"
	"net"

	"github.com/tandem-rpc/tandem/bench/message"
)

// ServePlain answers plain callers until ln is closed.
func ServePlain(ln net.Listener) error { return serve(ln, 0) }

// ServeMux answers mux callers until ln is closed.
func ServeMux(ln net.Listener) error { return serve(ln, tagSize) }

// serve accepts connections whose frames carry a tag of that many bytes.
func serve(ln net.Listener, tag int) error {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			_ = answerAll(conn, tag) // the client reports a broken connection
			_ = conn.Close()
		}()
	}
}

// answerAll answers requests in the read loop, with one write for each read.
func answerAll(conn net.Conn, tag int) error {
	in, m := newFrames(conn), new(message.BenchmarkMessage)
	var out []byte
	for {
		if err := in.fill(); err != nil {
			return err
		}
		var err error
		if out, err = answerBatch(out[:0], in, tag, m); err != nil {
			return err
		}
		if _, err := conn.Write(out); err != nil {
			return err
		}
	}
}

// answerBatch appends the responses to all complete frames of in to out.
func answerBatch(out []byte, in *frames, tag int, m *message.BenchmarkMessage) ([]byte, error) {
	for {
		frame, err := in.next()
		if frame == nil || err != nil {
			return out, err
		}
		m.Reset()
		if err := m.UnmarshalVT(frame[tag:]); err != nil {
			return out, fmt.Errorf("floor: decoding a request: %w", err)
		}
		message.Answer(m)
		if out, err = appendFrame(out, frame[:tag], m); err != nil {
			return out, err
		}
	}
}
