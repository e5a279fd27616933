package tandemtest

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

var errRefused = errors.New("connection refused")

// faults are the present faults of a server's connections.
type faults struct {
	refused bool // new connections are refused
	stalled bool
	delay   time.Duration
}

// link is the network between a server and its clients.
type link struct {
	mu      sync.Mutex
	now     faults
	changed chan struct{} // closed and replaced when now changes
	relays  map[*relay]struct{}
}

func newLink() *link {
	return &link{changed: make(chan struct{}), relays: make(map[*relay]struct{})}
}

func (l *link) set(change func(*faults)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.now)
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *link) state() (now faults, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now, l.changed
}

// cut ends all connections.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for r := range l.relays {
		r.end()
	}
}

// admit waits until a connection may be made.
func (l *link) admit(ctx context.Context) error {
	for {
		switch now, changed := l.state(); {
		case now.refused:
			return errRefused
		case !now.stalled:
			return nil
		default:
			select {
			case <-changed:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
}

// relay carries bytes between the two ends of a connection, with the faults of its link.
type relay struct {
	link  *link
	ends  [2]net.Conn
	ended chan struct{}
	once  sync.Once
}

// relay starts a relay, unless connections are refused.
func (l *link) relay(running *sync.WaitGroup, a, b net.Conn) bool {
	r := &relay{link: l, ends: [2]net.Conn{a, b}, ended: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.now.refused {
		return false
	}
	l.relays[r] = struct{}{}
	running.Go(func() {
		defer l.forget(r)
		var directions sync.WaitGroup
		directions.Go(func() { r.carry(a, b) })
		directions.Go(func() { r.carry(b, a) })
		directions.Wait()
		r.end()
	})
	return true
}

func (l *link) forget(r *relay) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.relays, r)
}

// end closes both ends, which ends the relay.
func (r *relay) end() {
	r.once.Do(func() {
		close(r.ended)
		for _, c := range r.ends {
			_ = c.Close() // in memory, there is nothing that could fail
		}
	})
}

// chunk is the result of one read.
type chunk struct {
	bytes []byte
	due   time.Time
}

// Limits of the bytes that are under way in one direction of a connection.
const (
	chunkSize = 32 << 10
	mostInAir = 64 // chunks
)

// carry copies from one end to the other until the first closes or the relay ends.
func (r *relay) carry(from, to net.Conn) {
	chunks := make(chan chunk, mostInAir)
	var reader sync.WaitGroup
	defer reader.Wait()
	reader.Go(func() {
		defer close(chunks)
		r.read(from, chunks)
	})
	for c := range chunks {
		if !r.arrive(c.due) {
			return
		}
		if _, err := to.Write(c.bytes); err != nil {
			r.end()
			return
		}
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok && r.arrive(time.Time{}) {
		_ = half.CloseWrite() // in memory, there is nothing that could fail
	}
}

// read reads from one end until it closes or the relay ends.
func (r *relay) read(from net.Conn, chunks chan<- chunk) {
	for {
		b := make([]byte, chunkSize)
		n, err := from.Read(b)
		if n > 0 {
			now, _ := r.link.state()
			select {
			case chunks <- chunk{b[:n], time.Now().Add(now.delay)}:
			case <-r.ended:
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				r.end()
			}
			return
		}
	}
}

// arrive waits until bytes that are due then may arrive; false when the relay has ended.
func (r *relay) arrive(due time.Time) bool {
	if wait := time.Until(due); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.ended:
			return false
		}
	}
	for {
		now, changed := r.link.state()
		if !now.stalled {
			return true
		}
		select {
		case <-changed:
		case <-r.ended:
			return false
		}
	}
}
