package server

import (
	"context"
	"errors"
	"io"
	"reflect"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/internal/budget"
	"github.com/tandem-rpc/tandem/internal/estimate"
)

// Reservation is the memory of [WithMemory] that one request of a [Protocol] holds. A request
// that declares its size reserves it before it is read, others reserve as they grow. Its
// methods are safe for concurrent use. Small requests hold nothing and cost nothing.
type Reservation struct {
	conn *Conn
	call *tandem.Call    // see For; nil for none
	ctx  context.Context //nolint:containedctx // the request's, which bounds its waits

	mu       sync.Mutex // a goroutine that has outlived its handler may still use it
	hold     *budget.Hold
	expected int64 // bytes expected since the last Release
}

// Reserve returns an empty Reservation for a request that begins. It waits for memory until
// ctx ends; if ctx has no deadline, until no other request was served for [WithStallTimeout].
// Release must be called when the request is over.
func (c *Conn) Reserve(ctx context.Context) *Reservation {
	r := new(Reservation)
	r.Init(c, ctx)
	return r
}

// Init is [Conn.Reserve] for a Reservation that is a part of something else.
func (r *Reservation) Init(c *Conn, ctx context.Context) { r.conn, r.ctx = c, ctx } //nolint:revive // the connection makes it

// For says that the memory is for one call, and returns r. Once the method of that call has waited
// in Reserve, or in a method that uses it, it holds no slot of overload control, so it does not
// keep other methods from starting.
func (r *Reservation) For(call *tandem.Call) *Reservation {
	r.call = call
	return r
}

func (r *Reservation) held() *budget.Hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hold == nil {
		r.hold = r.conn.account.Hold()
	}
	return r.hold
}

// Reserve holds n bytes more, and waits for room. Its error says that the request was not
// executed. Requests of at most 4 KiB need not be held.
func (r *Reservation) Reserve(n int64) error {
	if n <= 0 {
		return nil
	}
	h := r.held()
	if h.Try(n) {
		return nil
	}
	r.park()
	defer r.conn.awaitsMemory(r.call)()
	return h.Grow(r.ctx, n, r.conn.StallTimeout())
}

// TryReserve is Reserve without a wait: it reports whether there was room for n bytes more, and holds
// them then.
func (r *Reservation) TryReserve(n int64) bool { return n <= 0 || r.held().Try(n) }

// park gives up the call's slot of overload control, before the first wait.
func (r *Reservation) park() {
	if r.call != nil && r.call.Kind != tandem.Streaming {
		if a, ok := r.call.Body.(*admitted); ok {
			a.slot.Park(a.gate, a.env.Now()).Tell()
		}
	}
}

// ReserveReading is Reserve for a message that arrives on a connection whose requests share a
// receive window, as those of HTTP/2 do: a message that waited unread would keep the data of the
// others from arriving. While it waits it reads from message, and returns what it has read as
// early, nil for nothing; the caller reads the rest from message. message must return io.EOF at the
// end of the message, and must limit how long a Read takes. Bytes that are read early count against
// the half of [WithMemory] that is for them, and the request is refused if they find no room. If a
// Read fails, its error is returned.
func (r *Reservation) ReserveReading(n int64, message io.Reader) (early io.Reader, err error) {
	if n <= 0 {
		return nil, nil
	}
	h := r.held()
	if h.Try(n) {
		return nil, nil
	}
	r.park()
	defer r.conn.awaitsMemory(r.call)()
	var a ahead
	err = h.GrowReading(r.ctx, n, r.conn.StallTimeout(), func() error {
		if !h.Begin(aheadPiece) {
			return h.Exhausted(n)
		}
		return a.readPiece(message)
	})
	if err != nil || len(a.pieces) == 0 {
		return nil, err
	}
	return &a, nil
}

// Await is Reserve for the goroutine that reads the connection, which does not read on
// meanwhile. It gives up at the request's deadline too, unless that is zero, and when reads
// would return io.EOF because the server drains. The peer's stall timeout begins again after
// it. It does nothing for 4 KiB or less.
func (r *Reservation) Await(n int64, deadline time.Time) error {
	if n <= budget.Small {
		return nil
	}
	h := r.held()
	if h.Try(n) {
		return nil
	}
	ctx, cancel := context.WithCancel(r.ctx)
	if !deadline.IsZero() {
		ctx, cancel = context.WithDeadline(r.ctx, deadline)
	}
	defer cancel()
	r.conn.waits(cancel)
	defer r.conn.waits(nil)
	return h.Grow(ctx, n, r.conn.StallTimeout())
}

// Expect is Reserve for the memory that decoding a message takes. The sum of all bytes that are
// expected until Release is called must not exceed [WithMaxDecoded].
func (r *Reservation) Expect(n int64) error {
	r.mu.Lock()
	r.expected += n
	all := r.expected
	r.mu.Unlock()
	if most := r.conn.server.opts.maxDecoded; all > most {
		return budget.TooMuch(all, most)
	}
	return r.Reserve(n)
}

// Return gives n bytes back.
func (r *Reservation) Return(n int64) {
	if n > 0 {
		r.held().Shrink(n)
	}
}

// Release gives all bytes back. The Reservation may be used again.
func (r *Reservation) Release() {
	r.mu.Lock()
	h := r.hold
	r.expected = 0
	r.mu.Unlock()
	h.Release()
}

// Decompress returns src decompressed, at most limit bytes, and holds them.
func (r *Reservation) Decompress(c tandem.Compressor, src []byte, limit int) ([]byte, error) {
	return budget.Decompress(r, c, nil, src, limit)
}

// Codec returns a codec that decodes src, or parts of it, as c does, but first reserves the
// memory that decoding takes, if it may be large.
func (r *Reservation) Codec(c tandem.Codec, src []byte) tandem.Codec {
	if len(src) <= 1 {
		return c
	}
	return &reservingCodec{c, r}
}

// reservingCodec is a codec that reserves memory before it decodes.
type reservingCodec struct {
	tandem.Codec

	held *Reservation
}

func (c *reservingCodec) Decode(src []byte, v any) error {
	if len(src) <= estimate.Light(reflect.TypeOf(v)) {
		return c.Codec.Decode(src, v)
	}
	return codec.DecodeWithin(c.Codec, src, v, c.held)
}

// Unfit returns the error of a message that could not be decompressed or decoded: err itself
// if it says that there was no memory for it, else one with the code InvalidArgument.
func Unfit(err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*tandem.Error](err); ok && e.NotExecuted {
		return e
	}
	return tandem.Errorf(tandem.InvalidArgument, "%w", err)
}
