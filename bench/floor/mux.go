package floor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"

	"github.com/tandem-rpc/tandem/bench/message"
)

// errClosed is the error of calls in flight when their Mux is closed.
var errClosed = errors.New("floor: the connection is closed")

// Mux makes calls over one connection that many goroutines share.
type Mux struct {
	conn   net.Conn
	reader sync.WaitGroup
	calls  sync.Pool // of *call: making a channel for each call would cost more than sending

	mu      sync.Mutex
	slots   []*call  // by tag; nil where free
	free    []uint32 // tags of the free slots; the last freed is used first
	out     []byte   // frames that no goroutine has begun to write
	spare   []byte   // the buffer that out is swapped with
	writing bool     // a goroutine writes, until out is empty
	err     error    // why the connection ended
}

// call is one call in flight. It is reused: done is empty between calls.
type call struct {
	reply *message.BenchmarkMessage
	done  chan error
}

// DialMux connects to a server that runs ServeMux.
func DialMux(addr string) (*Mux, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	m := &Mux{conn: conn}
	m.calls.New = func() any { return &call{done: make(chan error, 1)} }
	m.reader.Go(func() { m.fail(m.read()) })
	return m, nil
}

// Call sends req and waits until the response has been decoded into reply.
func (m *Mux) Call(req, reply *message.BenchmarkMessage) error {
	c := m.calls.Get().(*call)
	defer m.calls.Put(c)
	c.reply = reply
	lead, err := m.enqueue(c, req)
	if err != nil {
		return err
	}
	if lead {
		m.write()
	}
	return <-c.done
}

// enqueue takes a slot and appends the frame to out. If lead is true, the caller must call
// write.
func (m *Mux) enqueue(c *call, req *message.BenchmarkMessage) (lead bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err != nil {
		return false, m.err
	}
	tag := m.takeLocked()
	var b [tagSize]byte
	binary.LittleEndian.PutUint32(b[:], tag)
	if m.out, err = appendFrame(m.out, b[:], req); err != nil {
		m.free = append(m.free, tag)
		return false, err
	}
	m.slots[tag] = c
	lead = !m.writing
	m.writing = true
	return lead, nil
}

// takeLocked returns the tag of a free slot.
func (m *Mux) takeLocked() uint32 {
	last := len(m.free) - 1
	if last < 0 {
		m.slots = append(m.slots, nil)
		return uint32(len(m.slots) - 1) //nolint:gosec // as many as there are goroutines
	}
	tag := m.free[last]
	m.free = m.free[:last]
	return tag
}

// write writes until no frame is left. Before each write it yields if other calls are in
// flight: goroutines that are ready to run append their frames first, and one system call
// sends them all.
func (m *Mux) write() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.out) > 0 {
		if len(m.slots)-len(m.free) > 1 {
			m.mu.Unlock()
			runtime.Gosched()
			m.mu.Lock()
		}
		frames := m.out
		m.out = m.spare[:0]
		m.mu.Unlock()
		if _, err := m.conn.Write(frames); err != nil {
			_ = m.conn.Close() // ends read, which fails every call
		}
		m.mu.Lock()
		m.spare = frames
	}
	m.writing = false
}

// arrival is a response that has been read, and the call that waits for it.
type arrival struct {
	call *call
	body []byte
}

// read delivers responses to their callers until the connection ends.
func (m *Mux) read() error {
	in := newFrames(m.conn)
	var batch []arrival
	for {
		if err := in.fill(); err != nil {
			return err
		}
		var err error
		batch, err = m.collect(batch[:0], in)
		for _, a := range batch {
			a.call.done <- a.call.reply.UnmarshalVT(a.body)
		}
		if err != nil {
			return err
		}
	}
}

// collect frees the slots of all responses of one read.
func (m *Mux) collect(batch []arrival, in *frames) ([]arrival, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		frame, err := in.next()
		if frame == nil || err != nil {
			return batch, err
		}
		tag := binary.LittleEndian.Uint32(frame)
		if int64(tag) >= int64(len(m.slots)) || m.slots[tag] == nil {
			return batch, fmt.Errorf("floor: an answer to call %d, which is not outstanding", tag)
		}
		batch = append(batch, arrival{m.slots[tag], frame[tagSize:]})
		m.slots[tag] = nil
		m.free = append(m.free, tag)
	}
}

// fail ends every call in flight, and all later ones.
func (m *Mux) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.conn.Close()
	if errors.Is(err, net.ErrClosed) {
		err = errClosed
	}
	m.err = fmt.Errorf("floor: connection lost: %w", err)
	for tag, c := range m.slots {
		if c != nil {
			m.slots[tag] = nil
			c.done <- m.err
		}
	}
}

// Close closes the connection, fails the calls in flight and waits for the reading
// goroutine.
func (m *Mux) Close() error {
	err := m.conn.Close()
	m.reader.Wait()
	return err
}
