package jsonrpc

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// pingAfter is how long a WebSocket may be silent before its client is pinged.
const pingAfter = 30 * time.Second

// closeTime is how long a client may take to answer when its WebSocket is closed.
const closeTime = time.Second

// socket is the server's side of a WebSocket.
type socket struct {
	*conn

	ws        *websocket.Conn
	ctx       context.Context    //nolint:containedctx // context of the connection and its calls
	cancel    context.CancelFunc // ends ctx, and so reading
	listening atomic.Bool        // read waits for the next message
	heard     atomic.Uint64      // the number of messages so far
	timeout   time.Duration      // timeout of each call, from the header; 0 for none

	mu       sync.Mutex
	draining bool
	open     sync.WaitGroup // messages being served; none is added when draining
}

// serveSocket serves a client until it or the server ends the connection.
func (h *handler) serveSocket(w http.ResponseWriter, r *http.Request, c *conn) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{OriginPatterns: h.origins})
	if err != nil {
		return // Accept has sent a response
	}
	defer func() { _ = ws.CloseNow() }() // in case it is still open
	ctx, cancel := context.WithCancel(r.Context())
	s := &socket{conn: c, ws: ws, ctx: ctx, cancel: cancel}
	if now := time.Now(); !deadlineOf(r.Header, now).IsZero() {
		s.timeout = deadlineOf(r.Header, now).Sub(now)
	}
	ws.SetReadLimit(-1) // next checks the limit, and answers
	tended := make(chan struct{})
	go func() {
		defer close(tended)
		s.tend()
	}()
	s.read()
	cancel() // no client waits for the responses any more
	s.open.Wait()
	<-tended
}

// tend pings a silent client, and closes the connection when the server drains or the
// client does not answer.
func (s *socket) tend() {
	ticks := time.NewTicker(pingAfter)
	defer ticks.Stop()
	for {
		select {
		case <-s.Draining():
			s.drain()
			return
		case <-s.ctx.Done():
			return
		case <-ticks.C:
			if !s.alive() {
				_ = s.ws.CloseNow() // this ends read
				return
			}
		}
	}
}

// alive reports whether the client answers a ping or sends a message. While read does not
// wait for a message, no answer would be read: alive then sends no ping.
func (s *socket) alive() bool {
	heard := s.heard.Load()
	if !s.listening.Load() {
		return true
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.StallTimeout())
	defer cancel()
	return s.ws.Ping(ctx) == nil || !s.listening.Load() || s.heard.Load() != heard
}

// drain closes the connection when all calls that have begun are answered.
func (s *socket) drain() {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	s.open.Wait()
	silent := time.AfterFunc(closeTime, s.cancel)
	defer silent.Stop()
	_ = s.ws.Close(websocket.StatusGoingAway, "the server is shutting down")
}

// begin counts a message as being served, unless the server drains.
func (s *socket) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		s.open.Add(1)
	}
	return !s.draining
}

// read serves messages until the connection ends.
func (s *socket) read() {
	for {
		held := s.Reserve(s.ctx)
		message, err := s.next(held)
		if err != nil {
			held.Release()
		}
		switch {
		case tandem.CodeOf(err) == tandem.ResourceExhausted && !tandem.MayHaveExecuted(err):
			s.answer(exhausted(err))
			continue
		case errors.Is(err, errTooLarge):
			s.answer(s.tooLarge())
			continue
		case err != nil:
			return
		case !s.begin():
			held.Release()
			s.answer(failed(serverError-int(tandem.Unavailable), &tandem.Error{
				Code: tandem.Unavailable, NotExecuted: true, Message: "the server is shutting down",
			}))
			continue
		}
		c := *s.conn
		c.held = held
		if s.timeout > 0 {
			c.deadline = time.Now().Add(s.timeout)
		}
		c.serveWhole(s.ctx, message, func(answer []byte) {
			defer s.open.Done()
			held.Release()
			s.answer(answer)
		})
	}
}

// next reads a message. Once it has begun, 64 KiB of it, or the rest, must arrive within
// the stall timeout. A message that is too large, or for which there is no memory, is read
// and discarded.
func (s *socket) next(held *server.Reservation) ([]byte, error) {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.listening.Store(true)
	_, r, err := s.ws.Reader(ctx)
	s.listening.Store(false)
	s.heard.Add(1)
	if err != nil {
		return nil, err
	}
	stalled := time.AfterFunc(s.StallTimeout(), cancel)
	defer stalled.Stop()
	var message bytes.Buffer
	var exhausted error
	piece := int64(smallMessage)
	for size := 0; ; piece = stallBytes {
		if size > 0 && exhausted == nil {
			stalled.Stop() // the server is waiting for memory, not for the client
			exhausted = held.Reserve(copies * piece)
			stalled.Reset(s.StallTimeout())
		}
		n, err := io.CopyN(&message, r, piece)
		if size += int(n); size > s.MaxMessage() || exhausted != nil {
			message.Reset()
		}
		switch {
		case errors.Is(err, io.EOF) && size > s.MaxMessage():
			return nil, errTooLarge
		case errors.Is(err, io.EOF) && exhausted != nil:
			return nil, exhausted
		case errors.Is(err, io.EOF):
			return message.Bytes(), nil
		case err != nil:
			return nil, err
		}
		stalled.Reset(s.StallTimeout())
	}
}

// answer sends a response, nil for none. If the client does not receive it within the stall
// timeout its connection is closed.
func (s *socket) answer(answer []byte) {
	if answer == nil {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.StallTimeout())
	defer cancel()
	_ = s.ws.Write(ctx, websocket.MessageText, answer) // an error is reported by reading
}
