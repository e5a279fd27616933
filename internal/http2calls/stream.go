package http2calls

import (
	"context"
	"encoding/binary"
	"io"
	"sync"

	"github.com/tandem-rpc/tandem/internal/http2"
)

// Stream is a call with messages both ways, each after five bytes with flags and its length. One
// goroutine may send while another receives.
type Stream struct {
	c       *Conn
	limit   int // bytes of a message
	headEnd uint64
	stop    func() bool // of the context's watch

	// Guarded by c.mu.
	st      *http2.Stream
	changed sync.Cond // any of what follows, or the stream's windows
	head    *http2.Block
	trailer *http2.Block
	body    []byte // that has arrived, and was not received
	ended   bool   // the response has come to its end
	gone    error  // why the stream has ended before
}

// Open begins a stream, which ends with ctx. limit is how many bytes a message of the response may
// have. The error is as that of Do.
func (c *Conn) Open(ctx context.Context, header []http2.Field, limit int) (*Stream, error) {
	if err := c.lockForCall(ctx); err != nil {
		return nil, err
	}
	return c.openLocked(ctx, header, limit)
}

// openLocked is Open with mu locked, when there is room for a stream. It unlocks it.
func (c *Conn) openLocked(ctx context.Context, header []http2.Field, limit int) (*Stream, error) {
	if !c.m.Fits(header) {
		c.mu.Unlock()
		return nil, ErrHeaderTooLarge
	}
	c.resumeLocked()
	s := &Stream{c: c, limit: limit, st: c.m.Open(header, false)}
	s.changed.L = &c.mu
	s.st.Owner, s.headEnd = s, c.positionLocked()
	c.m.Calm(openCalm)
	c.watchLocked()
	lead := c.leadLocked()
	s.stop = context.AfterFunc(ctx, func() { s.cancel(ctx.Err()) })
	c.mu.Unlock()
	if lead {
		c.write(true)
	}
	return s, nil
}

// cancel ends the stream because of this side.
func (s *Stream) cancel(why error) {
	s.c.tell(func() {
		if s.gone == nil {
			s.goneLocked(&FailedError{Err: why, NotExecuted: s.headEnd > s.c.writer.reached, Answered: s.head != nil})
		}
	})
}

// tell changes the machine and writes what follows from that.
func (c *Conn) tell(f func()) {
	c.mu.Lock()
	f()
	lead := c.leadLocked()
	c.mu.Unlock()
	if lead {
		c.write(false)
	}
}

// goneLocked ends the stream.
func (s *Stream) goneLocked(why error) {
	s.gone = why
	c := s.c
	if c.err == nil {
		c.m.Cancel(s.st, http2.Cancel)
		c.m.Consumed(s.st, len(s.body))
		c.grantLocked()
	}
	s.body = nil
	s.changed.Broadcast()
}

func (s *Stream) eventLocked(c *Conn, ev *http2.Event) {
	switch ev.Kind {
	case http2.Headed:
		s.head = ev.Block
	case http2.Trailed:
		s.trailer = ev.Block
	case http2.Body:
		if s.gone != nil {
			c.m.Consumed(s.st, len(ev.Data))
		} else {
			s.body = append(s.body, ev.Data...)
		}
	case http2.Reset:
		if s.gone == nil && !s.ended {
			s.gone = resetError(c, ev.Code, s.head != nil)
		}
	case http2.Writable, http2.Sent, http2.Acked, http2.Away:
	}
	if ev.Block != nil && ev.Block.TooLarge && s.gone == nil {
		s.goneLocked(ErrAnswerHeader)
	}
	s.ended = s.ended || ev.End
	s.changed.Broadcast()
}

func (s *Stream) lostLocked(err error, reached uint64) {
	if s.gone == nil && !s.ended {
		never := s.headEnd > reached
		s.gone = &FailedError{Err: err, NotExecuted: never, NotTaken: never, Answered: s.head != nil}
	}
	s.changed.Broadcast()
}

// Send sends a message, and waits until the server takes it. It returns io.EOF when the stream has
// ended: Receive says how.
func (s *Stream) Send(flags byte, message []byte) error {
	var head [envelopeLen]byte
	head[0] = flags
	binary.BigEndian.PutUint32(head[1:], uint32(len(message))) //nolint:gosec // messages are smaller than 4 GiB
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range [...][]byte{head[:], message} {
		for len(b) > 0 {
			if s.gone != nil || s.ended || c.err != nil {
				return io.EOF
			}
			b = b[c.m.Data(s.st, b):]
			if len(b) > 0 || len(c.m.Output()) >= enoughToWrite {
				s.pushLocked(false)
			}
			for len(b) > 0 && s.gone == nil && !s.ended && s.st.Waits() {
				s.changed.Wait()
			}
		}
	}
	s.pushLocked(true)
	return nil
}

// pushLocked writes what is queued, unless another goroutine does. It unlocks the mutex meanwhile.
func (s *Stream) pushLocked(yield bool) {
	if s.c.leadLocked() {
		s.c.mu.Unlock()
		s.c.write(yield)
		s.c.mu.Lock()
	}
}

// CloseSend ends the request.
func (s *Stream) CloseSend() {
	s.c.tell(func() {
		if s.gone == nil && !s.ended {
			s.c.m.Finish(s.st, nil, nil)
		}
	})
}

// Receive returns the next message, and its flags. What has arrived before the stream was reset, or its
// connection lost, is received before that error. It returns io.EOF at the end of the response:
// Response then has its header and trailer.
func (s *Stream) Receive() (flags byte, message []byte, err error) {
	c := s.c
	c.mu.Lock()
	var head [envelopeLen]byte
	if err = s.readLocked(head[:], true); err == nil {
		if n := int64(binary.BigEndian.Uint32(head[1:])); n > int64(s.limit) {
			err = ErrTooLarge
		} else {
			message, err = s.messageLocked(int(n))
		}
	}
	lead := c.leadLocked() // there may be credit to return
	c.mu.Unlock()
	if lead {
		c.write(true)
	}
	return head[0], message, err
}

// messageLocked takes a message, whose memory grows as it arrives.
func (s *Stream) messageLocked(n int) ([]byte, error) {
	message := make([]byte, min(n, max(firstBody, len(s.body))))
	done := 0
	for {
		if err := s.readLocked(message[done:], false); err != nil {
			return nil, err
		}
		if done = len(message); done == n {
			return message, nil
		}
		more := make([]byte, min(n, 2*done))
		copy(more, message)
		message = more
	}
}

// readLocked fills b from what arrives. It returns io.EOF at the end of the response if none of b has
// come and last allows that.
func (s *Stream) readLocked(b []byte, last bool) error {
	for done := 0; done < len(b); {
		switch {
		case len(s.body) > 0:
			n := copy(b[done:], s.body)
			done += n
			if s.body = s.body[n:]; len(s.body) == 0 {
				s.body = nil
			}
			s.c.m.Consumed(s.st, n)
		case s.gone != nil:
			return s.gone
		case s.ended && done == 0 && last:
			return io.EOF
		case s.ended:
			return ErrCut
		default:
			s.waitLocked()
		}
	}
	return nil
}

// waitLocked waits for more. What has been consumed may have made credit to return.
func (s *Stream) waitLocked() {
	if s.c.leadLocked() {
		s.c.mu.Unlock()
		s.c.write(false)
		s.c.mu.Lock()
		return
	}
	s.changed.Wait()
}

// Head waits for the response's header.
func (s *Stream) Head() (*http2.Block, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	for s.head == nil {
		if s.gone != nil {
			return nil, s.gone
		}
		s.changed.Wait()
	}
	return s.head, nil
}

// Trailer returns the response's trailer once Receive has returned an error; nil if there is none.
func (s *Stream) Trailer() *http2.Block {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.trailer
}

// Close ends the stream, and cancels it unless both messages have ended.
func (s *Stream) Close() {
	s.stop()
	s.c.tell(func() {
		if s.gone == nil {
			s.goneLocked(ErrClosed)
		} else if s.c.err == nil {
			s.c.m.Consumed(s.st, len(s.body))
			s.body = nil
		}
	})
}
