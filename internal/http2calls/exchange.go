package http2calls

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tandem-rpc/tandem/internal/http2"
	"github.com/tandem-rpc/tandem/internal/lazyctx"
)

// Exchange is a call with one message each way. It can be used again with Reset.
type Exchange struct {
	Header   []http2.Field // of the request
	Body     []byte        // of the request; it must not be changed until Do has returned
	MaxBody  int           // bytes of the response's body
	Envelope bool          // that body, if the status is 200, is a message after five bytes with its length
	Keep     bool          // keep the response's header and trailer even if they say nothing

	// The response. Head and Trailer are nil if they say nothing but success.
	Head, Trailer *http2.Block
	Fine          bool // there is a trailer that says nothing but success
	Response      []byte

	st         *http2.Stream
	expires    time.Time
	cancelable bool   // its context may end for another reason than its deadline
	headEnd    uint64 // of the request, in bytes as Conn.positionLocked counts
	headed     bool   // a part of the response has come
	over       bool
	err        error
	done       chan struct{} // gets a token when the response is complete, or will not be
	conns      *Conns        // that it goes back to: not to the process, a test's channels must stay in it
}

// maxKept is the largest Body whose memory is used again.
const maxKept = 16 << 10

// NewExchange returns an empty Exchange.
func NewExchange() *Exchange { return &Exchange{done: make(chan struct{}, 1)} }

// Exchange returns an empty Exchange, which Release gives back.
func (s *Conns) Exchange() *Exchange {
	if x := s.spare.Swap(nil); x != nil {
		return x
	}
	if x, ok := s.exchanges.Get().(*Exchange); ok {
		return x
	}
	x := NewExchange()
	x.conns = s
	return x
}

// Release gives an Exchange back. Response still belongs to the caller; Head and Trailer do not.
func (x *Exchange) Release() {
	if x.conns == nil {
		return
	}
	for _, b := range []*http2.Block{x.Head, x.Trailer} {
		if b != nil {
			b.Free()
		}
	}
	clear(x.Header)
	*x = Exchange{Header: x.Header[:0], Body: x.Body[:0], done: x.done, conns: x.conns}
	if cap(x.Body) > maxKept {
		x.Body = nil
	}
	if !x.conns.spare.CompareAndSwap(nil, x) {
		x.conns.exchanges.Put(x)
	}
}

// FailedError is why a call got no response.
type FailedError struct {
	Err         error
	Reset       bool       // the stream was reset, with Code
	Code        http2.Code // why
	NotExecuted bool       // the header of the request has not reached the server, or it was refused
	NotTaken    bool       // the connection was about to end: another one may take the call
	Answered    bool       // a part of the response has arrived
}

// Error returns the reason.
func (e *FailedError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *FailedError) Unwrap() error { return e.Err }

// Errors that are about one call.
var (
	ErrTooLarge       = errors.New("the response is larger than the limit")
	ErrHeaderTooLarge = errors.New("the metadata is larger than the server takes")
	ErrCut            = errors.New("the response ends in the middle of a message")
	ErrAnswerHeader   = errors.New("the metadata of the response is larger than 1 MiB")
)

// Do makes a call. The error is a [*FailedError], or one that is about this call.
func (c *Conn) Do(ctx context.Context, x *Exchange) error {
	if err := c.lockForCall(ctx); err != nil {
		return err
	}
	return c.doLocked(ctx, x)
}

// doLocked is Do with mu locked, when there is room for a call. It unlocks it.
func (c *Conn) doLocked(ctx context.Context, x *Exchange) error {
	if !c.m.Fits(x.Header) {
		c.mu.Unlock()
		return ErrHeaderTooLarge
	}
	x.Head, x.Trailer, x.Fine, x.Response = nil, nil, false, nil
	x.headed, x.over, x.err = false, false, nil
	st := c.m.Open(x.Header, false)
	st.Owner, x.st = x, st
	x.headEnd = c.positionLocked()
	c.m.Finish(st, x.Body, nil)
	c.m.Calm(openCalm)
	c.watchLocked()
	parent, at := lazyctx.Split(ctx)
	x.expires = at
	c.expireLocked(at)
	done := parent.Done()
	x.cancelable = done != nil
	reads := c.takeRoleLocked(x)
	lead := c.leadLocked()
	c.mu.Unlock()
	if lead {
		c.write(true)
	}
	if reads && c.readFor() {
		return x.err
	}
	if done == nil {
		<-x.done
		return x.err
	}
	select {
	case <-x.done:
		return x.err
	case <-done:
		return c.leave(parent, x)
	}
}

// openCalm is how many frames that further no call a server may send for each that it gets.
const openCalm = 4

// leave gives up a call unless its response has come first.
func (c *Conn) leave(ctx context.Context, x *Exchange) error {
	c.mu.Lock()
	if x.over {
		c.mu.Unlock()
		<-x.done
		return x.err
	}
	err := x.givenUpLocked(c, ctx.Err())
	c.grantLocked()
	lead := c.leadLocked()
	c.mu.Unlock()
	if lead {
		c.write(false)
	}
	return err
}

// givenUpLocked ends a call whose caller does not wait any more, and returns its error.
func (x *Exchange) givenUpLocked(c *Conn, why error) error {
	c.m.Cancel(x.st, http2.Cancel)
	err := &FailedError{Err: why, NotExecuted: x.headEnd > c.writer.reached, Answered: x.Answered()}
	x.overLocked(c)
	return err
}

// Answered reports whether a part of the response has come.
func (x *Exchange) Answered() bool { return x.headed }

// overLocked notes that the call is over.
func (x *Exchange) overLocked(c *Conn) {
	x.over = true
	x.st.Owner = nil
	x.st = nil
	if c.extra {
		c.used = time.Now()
	}
}

// finishLocked ends the call and lets the reader wake the caller.
func (x *Exchange) finishLocked(c *Conn, err error) {
	if x.over {
		return
	}
	x.err = err
	if !x.st.Sent() || err != nil {
		c.m.Cancel(x.st, http2.Cancel)
	}
	x.overLocked(c)
	if c.direct.caller == x {
		c.direct.got = true
		return
	}
	c.woken = append(c.woken, x)
}

func (x *Exchange) eventLocked(c *Conn, ev *http2.Event) {
	switch ev.Kind {
	case http2.Headed:
		x.headed = true
		if !x.takeLocked(c, ev, &x.Head, false) {
			return
		}
	case http2.Trailed:
		if !x.takeLocked(c, ev, &x.Trailer, true) {
			return
		}
	case http2.Body:
		if len(ev.Data) > 0 {
			c.m.Consumed(ev.Stream, len(ev.Data))
			if !x.add(ev.Data) {
				x.finishLocked(c, ErrTooLarge)
				return
			}
		}
	case http2.Reset:
		x.finishLocked(c, resetError(c, ev.Code, x.Answered()))
		return
	case http2.Writable, http2.Sent, http2.Acked, http2.Away:
		return
	}
	if ev.End {
		x.finishLocked(c, nil)
	}
}

// resetError returns the error of a stream that was reset.
func resetError(c *Conn, code http2.Code, answered bool) *FailedError {
	refused := code == http2.RefusedStream
	return &FailedError{
		Err: fmt.Errorf("the server has reset the stream: %v", code), Reset: true, Code: code,
		NotExecuted: refused && !answered, NotTaken: refused && !answered && c.m.Closed(), Answered: answered,
	}
}

// takeLocked takes a header or trailer; it reports whether the call goes on.
func (x *Exchange) takeLocked(c *Conn, ev *http2.Event, to **http2.Block, trailer bool) bool {
	switch {
	case ev.Block.TooLarge:
		ev.Block.Free()
		x.finishLocked(c, ErrAnswerHeader)
		return false
	case !x.Keep && c.cfg.Skim != nil && c.cfg.Skim(ev.Block, trailer) && (trailer || !ev.End):
		ev.Block.Free()
		x.Fine = trailer
	default:
		*to = ev.Block
	}
	return true
}

// add takes a part of the response's body; it reports whether that is within the limit.
func (x *Exchange) add(b []byte) bool {
	whole := len(x.Response) + len(b)
	if x.Envelope && (x.Head == nil || x.Head.Status == statusOK) && len(x.Response) < envelopeLen && whole >= envelopeLen {
		var head [envelopeLen]byte
		copy(head[copy(head[:], x.Response):], b)
		whole = envelopeLen + int(binary.BigEndian.Uint32(head[1:]))
	}
	if max(whole, len(x.Response)+len(b)) > x.MaxBody {
		return false
	}
	if x.Response == nil {
		x.Response = make([]byte, 0, min(whole, max(len(b), firstBody)))
	} else if free := cap(x.Response) - len(x.Response); free < len(b) {
		x.Response = slices.Grow(x.Response, min(max(len(b), len(x.Response)), max(whole-len(x.Response), len(b))))
	}
	x.Response = append(x.Response, b...)
	return true
}

const (
	statusOK    = 200
	envelopeLen = 5

	// firstBody is how much memory a response gets because it says that it is large.
	firstBody = 64 << 10
)

func (x *Exchange) lostLocked(err error, reached uint64) {
	if x.over {
		return
	}
	x.over = true
	x.st.Owner, x.st = nil, nil
	never := x.headEnd > reached
	x.err = &FailedError{Err: err, NotExecuted: never, NotTaken: never, Answered: x.Answered()}
	x.done <- struct{}{}
}
