package floor

import (
	"fmt"
	"net"
	"sync"

	"github.com/tandem-rpc/tandem/bench/message"
)

// ServePlain answers plain callers until ln is closed. It returns the
// listener's error once every connection has ended.
func ServePlain(ln net.Listener) error { return serve(ln, 0) }

// ServeMux answers mux callers until ln is closed. It returns the listener's
// error once every connection has ended.
func ServeMux(ln net.Listener) error { return serve(ln, tagSize) }

// serve accepts connections whose frames carry a tag of that many bytes.
func serve(ln net.Listener, tag int) error {
	var open connections
	defer open.closeAll()
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		open.start(conn, func() {
			_ = answerAll(conn, tag) // a broken connection is the client's to report
		})
	}
}

// answerAll runs every request in the read loop and writes once per read.
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

// answerBatch appends the answers to all complete frames of in to out.
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

// connections are the open connections of a server and their goroutines.
type connections struct {
	running sync.WaitGroup
	mu      sync.Mutex
	open    map[net.Conn]struct{}
}

// start runs serve in a goroutine and closes conn when it returns.
func (c *connections) start(conn net.Conn, serve func()) {
	c.mu.Lock()
	if c.open == nil {
		c.open = make(map[net.Conn]struct{})
	}
	c.open[conn] = struct{}{}
	c.mu.Unlock()
	c.running.Go(func() {
		serve()
		c.mu.Lock()
		delete(c.open, conn)
		c.mu.Unlock()
		_ = conn.Close()
	})
}

// closeAll ends every connection and waits for its goroutine.
func (c *connections) closeAll() {
	c.mu.Lock()
	for conn := range c.open {
		_ = conn.Close()
	}
	c.mu.Unlock()
	c.running.Wait()
}
