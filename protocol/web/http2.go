package web

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/http2"
	"github.com/tandem-rpc/tandem/server"
)

// http2Conn is a connection of HTTP/2 round a state machine: a reader, which makes short calls itself,
// and a goroutine for each other request.
type http2Conn struct {
	*conn

	p        *protocol
	ctx      context.Context //nolint:containedctx // the parent of the requests'
	requests sync.WaitGroup
	readOver chan struct{} // closed when nothing more is read
	readErr  error         // why; set before readOver is closed

	// mu is never held during a read, a write or a wait, and is taken after server.Conn's own locks.
	machine   sync.Mutex // guards what follows
	m         *http2.Machine
	streams   map[*http2Stream]struct{}     // whose handlers have not returned
	err       error                         // why the connection has ended; nil while it lasts
	waiting   []*quickCall                  // those whose message had not come when their header had; some have gone on
	late      *time.Timer                   // of beginWaiting; nil until there are any
	firstPath string                        // the first path that requests were for
	first     quickTarget                   // and its target
	peers     [overConnect + 1]*tandem.Peer // of quick calls, by format; nil until there are any
	targets   map[string]quickTarget        // those of other paths
	writing   bool                          // a goroutine writes, and looks for more when it has written
	spare     []byte                        // a buffer for Output
	heard     time.Time                     // when bytes came last
	calmed    time.Time                     // until when the machine was told of the time that has passed
	used      time.Time                     // when a request began or ended last
	asked     time.Time                     // when a PING was sent that has not been answered; zero for none
	leaving   bool                          // no further requests are taken
	clock     *time.Timer                   // of tick
}

// Windows of a connection, as net/http's server has them.
const (
	streamWindow = 1 << 20
	connWindow   = 1 << 20
)

// readPreface reports whether the client begins with the preface of HTTP/2, and reads no more than
// is needed to know that.
func (c *conn) readPreface() (bool, error) {
	if err := c.Conn.SetReadDeadline(time.Now().Add(c.StallTimeout())); err != nil {
		return false, err
	}
	first := make([]byte, 0, len(http2.Preface))
	for string(first) == http2.Preface[:len(first)] {
		n, err := c.Conn.Read(first[len(first):cap(first)])
		first = first[:len(first)+n]
		switch {
		case string(first) == http2.Preface:
			c.held = first
			return true, c.Conn.SetReadDeadline(time.Time{})
		case err != nil:
			return false, err
		}
	}
	c.held = first
	return false, nil
}

// serveHTTP2 serves a connection whose client has begun with the preface of HTTP/2, until it ends.
func (p *protocol) serveHTTP2(ctx context.Context, c *conn) (err error) {
	h := p.newHTTP2Conn(ctx, c)
	returned := false
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				panic(v) // the server reports it; no goroutine may be left that ends the reading
			}
		}
		err = h.finish() // also if a method has ended this goroutine
	}()
	newHTTP2Reader(h).loop()
	returned = true
	return nil
}

// connContext is the parent of the requests' contexts.
type connContext struct {
	context.Context

	conn *server.Conn
}

func (c *connContext) Value(key any) any {
	switch key {
	case connKey{}:
		return c.conn
	case http.LocalAddrContextKey:
		return c.conn.LocalAddr()
	}
	return c.Context.Value(key)
}

// newHTTP2Conn returns a connection that is ready to be read.
func (p *protocol) newHTTP2Conn(ctx context.Context, c *conn) *http2Conn {
	now := time.Now()
	h := &http2Conn{
		conn: c, p: p, ctx: &connContext{ctx, c.Conn},
		heard: now, used: now, calmed: now, readOver: make(chan struct{}),
		m: http2.NewServer(http2.Config{
			MaxStreams: uint32(min(p.opts.maxStreams, c.MaxOpenCalls(), maxStreamsEver)), //nolint:gosec // it is small
			MaxHeader:  uint32(min(p.opts.maxHeader, maxHeaderEver)),                     //nolint:gosec // it is small
			Window:     streamWindow, ConnWindow: connWindow,
		}),
	}
	h.machine.Lock()
	h.clock = time.AfterFunc(pingAfter, h.tick)
	if p.opts.idle > 0 {
		h.clock.Reset(min(pingAfter, p.opts.idle))
	}
	h.machine.Unlock()
	c.OnDrain(h.drain)
	h.flush()
	return h
}

// finish waits until nothing more is read, and ends the connection.
func (h *http2Conn) finish() error {
	<-h.readOver
	h.fail(h.readErr)
	h.clock.Stop()
	h.machine.Lock()
	if h.late != nil {
		h.late.Stop()
	}
	h.machine.Unlock()
	h.requests.Wait()
	h.mu.Lock()
	h.endLocked(true)
	h.mu.Unlock()
	if broken, ok := errors.AsType[*http2.ConnError](h.readErr); ok {
		return broken
	}
	return nil
}

const (
	maxStreamsEver = 1 << 20
	maxHeaderEver  = 1 << 30

	// maxSpareOut is the largest buffer that a connection keeps for what it writes next.
	maxSpareOut = 32 << 10

	// outBytes are those of a buffer for large messages: what the machine queues, and a frame more.
	outBytes = http2.Soft + 32<<10

	// calmEvery is the time after which a client may send one more frame that furthers no message.
	calmEvery = 10 * time.Millisecond
)

// handleLocked does what events require, and returns the requests that have begun.
func (h *http2Conn) handleLocked(events []http2.Event) (begun []*http2Stream, quick []*quickCall) {
	for i := range events {
		ev := &events[i]
		if ev.Kind == http2.Headed {
			h.used = h.heard
			q := h.quick(ev)
			if q == nil {
				begun = append(begun, h.beginLocked(ev.Stream, ev.Block, ev.End))
			} else if i+1 == len(events) || events[i+1].Stream != ev.Stream {
				h.awaitLocked(q)
			}
			continue
		}
		if q := waits(ev); q != nil {
			switch {
			case ev.Kind == http2.Reset:
				q.waits = false
				q.head.Free()
				h.m.Done(q.st)
				continue
			case q.takeWhole(ev):
				quick = append(quick, q)
				continue
			}
			begun = append(begun, h.beginLocked(q.st, q.head, false))
		}
		h.changeLocked(ev)
	}
	return begun, quick
}

// waits returns the call that waits for its message, which ev may be; nil if there is none.
func waits(ev *http2.Event) *quickCall {
	if ev.Stream == nil {
		return nil
	}
	if q, ok := ev.Stream.Owner.(*quickCall); ok && q.waits {
		return q
	}
	return nil
}

// messageSoon is how long a call may wait for its message before it goes the long way.
const messageSoon = 5 * time.Millisecond

// awaitLocked waits a moment for the message of a call whose header has come: clients send them one
// after the other.
func (h *http2Conn) awaitLocked(q *quickCall) {
	if h.waiting = append(h.waiting, q); len(h.waiting) > 1 {
		return
	}
	if h.late == nil {
		h.late = time.AfterFunc(messageSoon, h.beginWaiting)
	} else {
		h.late.Reset(messageSoon)
	}
}

// beginWaiting begins the requests whose message has not come soon.
func (h *http2Conn) beginWaiting() {
	h.machine.Lock()
	defer h.machine.Unlock()
	for _, q := range h.waiting {
		if q.waits && h.err == nil && !q.st.Sent() {
			h.requests.Go(h.beginLocked(q.st, q.head, false).serve)
		}
	}
	clear(h.waiting)
	h.waiting = h.waiting[:0]
}

// changeLocked does what an event of a stream that has begun requires.
func (h *http2Conn) changeLocked(ev *http2.Event) {
	if ev.Stream == nil {
		return
	}
	if q, ok := ev.Stream.Owner.(*quickCall); ok {
		if ev.Kind == http2.Reset {
			q.Cancel()
		}
		return
	}
	s, _ := ev.Stream.Owner.(*http2Stream)
	switch ev.Kind {
	case http2.Body:
		s.bodyLocked(ev.Data, ev.End)
	case http2.Trailed:
		s.trailer = ev.Block
		s.bodyLocked(nil, true)
	case http2.Reset:
		s.goneLocked(ev.Stream.Gone())
	case http2.Writable:
		s.changed.Broadcast()
	case http2.Sent:
		s.sentLocked()
	case http2.Headed, http2.Acked, http2.Away:
	}
}

func (h *http2Conn) beginLocked(st *http2.Stream, head *http2.Block, end bool) *http2Stream {
	s := &http2Stream{h: h, st: st, head: head, ended: end}
	s.changed.L = &h.machine
	s.ctx, s.cancel = context.WithCancel(h.ctx)
	st.Owner = s
	if h.streams == nil {
		h.streams = map[*http2Stream]struct{}{}
	}
	h.streams[s] = struct{}{}
	return s
}

// flush writes what the machine has to write, unless another goroutine writes: that looks for more
// when it has written. flush may wait for the client.
func (h *http2Conn) flush() {
	if h.startWriting() {
		h.write(nil)
	}
}

// tryFlush is flush for the goroutine that reads, and must not wait: what the client does not take at
// once is written by another.
func (h *http2Conn) tryFlush() {
	if !h.startWriting() {
		return
	}
	for {
		b := h.nextWrite()
		if len(b) == 0 {
			return
		}
		if n, err := h.TryWrite(b); err != nil || n < len(b) {
			h.requests.Go(func() { h.write(b[n:]) })
			return
		}
		h.wrote(b)
	}
}

// startWriting reports whether there is something to write, and the calling goroutine is the one to do it.
func (h *http2Conn) startWriting() bool {
	h.machine.Lock()
	defer h.machine.Unlock()
	if h.writing || len(h.m.Output()) == 0 {
		return false
	}
	h.writing = true
	return true
}

// write writes b, and then what the machine has to write.
func (h *http2Conn) write(b []byte) {
	for {
		if len(b) == 0 {
			if b = h.nextWrite(); len(b) == 0 {
				h.endIfDone()
				return
			}
		}
		if _, err := h.conn.Conn.Write(b); err != nil {
			h.fail(err)
			_ = h.Close()
			return // writing stays set: nothing can be written any more
		}
		h.wrote(b)
		b = nil
	}
}

// nextWrite returns what is to be written next; with nothing, this goroutine writes no more.
func (h *http2Conn) nextWrite() []byte {
	h.machine.Lock()
	defer h.machine.Unlock()
	if len(h.m.Output()) == 0 {
		h.writing = false
		return nil
	}
	next := h.spare
	if next == nil && cap(h.m.Output()) > maxSpareOut { // more is likely to come
		next = outBuffers.Get().(*[outBytes]byte)[:0] //nolint:forcetypeassert // nothing else is put
	}
	b := h.m.Take(next)
	h.spare = nil
	for _, ev := range h.m.Pump() {
		h.changeLocked(&ev)
	}
	return b
}

// outBuffers has buffers for connections that send large messages; an idle one holds none.
var outBuffers = sync.Pool{New: func() any { return new([outBytes]byte) }} //nolint:gochecknoglobals // shared memory

// wrote takes the buffer of what was written back.
func (h *http2Conn) wrote(b []byte) {
	if cap(b) > maxSpareOut {
		if cap(b) >= outBytes {
			outBuffers.Put((*[outBytes]byte)(b[:outBytes]))
		}
		return
	}
	h.machine.Lock()
	if !h.m.Lend(b) { // an idle connection has one buffer
		h.spare = b
	}
	h.machine.Unlock()
}

// fail ends all requests when the connection has ended.
func (h *http2Conn) fail(err error) {
	h.machine.Lock()
	defer h.machine.Unlock()
	if h.err != nil {
		return
	}
	if h.err = err; err == nil {
		h.err = http.ErrServerClosed
	}
	for s := range h.streams {
		s.goneLocked(h.err)
	}
	h.m.Each(func(st *http2.Stream) {
		if q, ok := st.Owner.(*quickCall); ok {
			q.Cancel()
		}
	})
}

// tick looks for clients that are gone, and for connections without requests.
func (h *http2Conn) tick() {
	h.machine.Lock()
	if h.err != nil {
		h.machine.Unlock()
		return
	}
	next, over := h.lookLocked(time.Now())
	h.clock.Reset(next)
	h.machine.Unlock()
	h.flush()
	if over {
		_ = h.Close()
	}
}

// lookLocked asks a client that has been silent for a while whether it is there, and reports whether
// the connection is over: the client has not answered, or has made no request for the idle timeout.
// Otherwise it is to be called again after next.
func (h *http2Conn) lookLocked(now time.Time) (next time.Duration, over bool) {
	next = pingAfter - now.Sub(h.heard)
	if !h.asked.IsZero() {
		next = h.StallTimeout() - now.Sub(h.asked)
		over = next <= 0
	} else if next <= 0 {
		h.asked = now
		h.m.Ping([8]byte{'t', 'a', 'n', 'd', 'e', 'm'})
		next = h.StallTimeout()
	}
	if h.p.opts.idle > 0 && len(h.streams) == 0 && h.m.Streams() == 0 {
		left := h.p.opts.idle - now.Sub(h.used)
		next = min(next, left)
		over = over || left <= 0
	}
	if over {
		h.m.Refuse(http2.NoError, "no request for a while, or no answer")
	}
	return max(next, time.Millisecond), over
}

// drain tells the client to use another connection, and returns when its requests are answered.
func (h *http2Conn) drain() {
	h.draining.Store(true)
	wait, cancel := context.WithTimeout(h.ctx, lastRequest)
	h.await(wait, h.firstRequest)
	cancel()
	h.tell(h.m.Leave)
	wait, cancel = context.WithTimeout(h.ctx, lastRequest)
	h.await(wait, nil)
	cancel()
	h.tell(func() {
		h.leaving = true
		h.m.Refuse(http2.NoError, "")
	})
	h.limitReads()
	h.endIfDone()
	<-h.connEnded
}

// tell changes the machine and writes what follows from that.
func (h *http2Conn) tell(f func()) {
	h.machine.Lock()
	f()
	h.machine.Unlock()
	h.flush()
}

// endIfDone closes a connection that takes no further requests when all answers are written.
func (h *http2Conn) endIfDone() {
	if !h.draining.Load() {
		return
	}
	h.machine.Lock()
	over := h.leaving && len(h.streams) == 0 && h.m.Streams() == 0 && !h.writing && len(h.m.Output()) == 0
	h.machine.Unlock()
	if over {
		_ = h.Close()
	}
}
