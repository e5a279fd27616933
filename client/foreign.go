package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/call"
	"github.com/tandem-rpc/tandem/internal/lazyctx"
	"github.com/tandem-rpc/tandem/internal/pool"
	"github.com/tandem-rpc/tandem/transport"
)

var _ pool.Foreign = (*foreign)(nil)

// foreign is a connection of another protocol.
type foreign struct {
	client   *Client
	protocol Protocol
	carrier  Carrier
	remote   *Remote
	peer     *tandem.Peer
	made     time.Time
	heard    atomic.Int64 // nanoseconds after made, which a step of the wall clock does not change

	mu      sync.Mutex
	calls   int  // in flight
	retired bool // no more calls are made
	away    chan struct{}
	ended   bool          // Close was called
	closing chan struct{} // closed by Close
}

func (f *foreign) noteLife() { f.heard.Store(int64(time.Since(f.made))) }

// Invoke makes the call, or returns an error if the connection takes no more calls.
func (f *foreign) Invoke(ctx context.Context, call *tandem.Call) error {
	streams, able := f.carrier.(StreamCarrier)
	if call.Kind == tandem.Streaming && !able {
		return notSent(tandem.Unimplemented, "%s is a stream, which %s can't carry", call.Method, f.protocol.Name())
	}
	if err := carriable(f.protocol, call.Codec); err != nil {
		return err
	}
	if !compressible(f.protocol, call.Compressor) {
		return notSent(tandem.Unimplemented, "%s", noCompressor(f.protocol, call.Compressor))
	}
	if err := f.begin(); err != nil {
		return err
	}
	if call.Kind == tandem.Streaming {
		return f.stream(ctx, call, streams)
	}
	defer f.done()
	if !call.Deadline.IsZero() {
		timed := lazyctx.With(ctx, call.Deadline)
		defer timed.Cancel()
		ctx = timed
	}
	return f.between(ctx, call)
}

// between passes the attempt to [call.Carry], which runs the points of plugins round carry.
func (f *foreign) between(ctx context.Context, attempt *tandem.Call) error {
	return call.Carry(ctx, attempt, f.peer, func(m *call.Message) error { return f.carry(ctx, attempt, m) })
}

// carry hands an attempt to the carrier.
func (f *foreign) carry(ctx context.Context, attempt *tandem.Call, m *call.Message) error {
	if err := ctx.Err(); err != nil {
		e := tandem.AsError(err)
		e.NotExecuted = true
		return e
	}
	r := &Request{Call: attempt, Message: m.Request, Several: m.Several, Compressed: m.Compressor != ""}
	err := f.carrier.Carry(ctx, r)
	m.Reply, m.ReplyCompressed = r.Reply, r.ReplyCompressed
	if most := f.client.opts.maxMessage; err == nil && len(r.Reply) > most {
		f.noteLife()
		err = &tandem.Error{Code: tandem.ResourceExhausted, Message: fmt.Sprintf("a response of %d bytes, limit %d: raise it with WithMaxMessage", len(r.Reply), most)}
	}
	return f.conclude(err)
}

// conclude turns an error of the carrier into a [*tandem.Error], and notes that the server was
// heard if it has answered.
func (f *foreign) conclude(err error) error {
	e, ours := errors.AsType[*tandem.Error](err)
	switch {
	case err == nil, ours && e.Remote:
		f.noteLife()
		return err
	case f.remote.wantsTLS.Load():
		e = tandem.Errorf(tandem.Unavailable, "%w", transport.ErrServerWantsTLS)
		e.NotExecuted = true // no byte of a call has reached a handler
	case ours:
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e = tandem.AsError(err)
	default:
		e = tandem.Errorf(tandem.Unavailable, "%w", err)
	}
	if e.NotExecuted && f.Err() != nil && e.Code == tandem.Unavailable {
		return f.gone(e)
	}
	return e
}

// gone returns the error of a call that was not sent because the connection has ended or was
// retired. The call may be made at another instance.
func (f *foreign) gone(why error) error {
	e := tandem.Errorf(tandem.Unavailable, "%w", pool.NotTakenError(fmt.Sprintf("the connection to %s is gone: %v", f.peer.Addr, why)))
	e.NotExecuted = true
	return e
}

var errRetired = errors.New("it takes no more calls")

// begin counts a call as in flight. It returns an error if the connection takes no more calls.
func (f *foreign) begin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if why := f.Err(); why != nil {
		return f.gone(why)
	}
	if f.retired {
		return f.gone(errRetired)
	}
	f.calls++
	return nil
}

// done counts the end of a call. The last call of a retired connection closes it.
func (f *foreign) done() {
	f.mu.Lock()
	f.calls--
	last := f.retired && f.calls == 0
	f.mu.Unlock()
	if last {
		f.Close()
	}
}

// Peer describes the server.
func (f *foreign) Peer() *tandem.Peer { return f.peer }

// Err says why the connection has ended.
func (f *foreign) Err() error {
	select {
	case <-f.carrier.Done():
		return f.carrier.Err()
	default:
		return nil
	}
}

// OnAway calls tell when the connection has ended or was retired. Servers of other protocols do
// not announce that they drain.
func (f *foreign) OnAway(tell func()) {
	f.client.life.Start(func() {
		select {
		case <-f.away:
		case <-f.carrier.Done():
		case <-f.client.life.Context().Done():
		}
		tell()
	})
}

// Retire lets the connection take no more calls, and closes it when the last call in flight has
// ended.
func (f *foreign) Retire() {
	f.mu.Lock()
	if !f.retired {
		f.retired = true
		close(f.away)
	}
	idle := f.calls == 0
	f.mu.Unlock()
	if idle {
		f.Close()
	}
}

// Close ends the connection.
func (f *foreign) Close() {
	f.mu.Lock()
	first := !f.ended
	if first {
		f.ended = true
		close(f.closing)
	}
	f.mu.Unlock()
	if first {
		if err := f.carrier.Close(); err != nil {
			f.client.log().Debug("closing a connection", "peer", f.peer.Addr, "error", err)
		}
		f.client.log().Debug("connection ended", "peer", f.peer.Addr, "protocol", f.protocol.Name(), "reason", f.Err())
	}
}

// Heard returns when something was last received.
func (f *foreign) Heard() time.Time { return f.made.Add(time.Duration(f.heard.Load())) }

// Ping sends a ping, and does not wait for the answer. Any answer will do.
func (f *foreign) Ping() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || f.client.life.Context().Err() != nil {
		return
	}
	f.client.life.Go(func() {
		ctx, cancel := context.WithTimeout(f.client.life.Context(), pool.LeastPingTimeout)
		defer cancel()
		if f.carrier.Ping(ctx) == nil {
			f.noteLife()
		}
	})
}
