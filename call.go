package tandem

import (
	"context"
	"slices"
	"time"
)

// Func handles one call: on a client it carries the call out, on a server it
// runs the method. It returns nil when the call succeeded. For a stream it
// returns when the stream was accepted (client) or when the handler is done
// (server).
type Func func(ctx context.Context, call *Call) error

// Interceptor wraps a [Func]. It may look at and change the call, refuse it,
// run next more than once (each time with its own [Call.Clone]), or act after
// it. Chains are built once, so an interceptor is called once per Func and the
// Func it returns runs concurrently.
type Interceptor func(next Func) Func

// Chain returns f wrapped in the interceptors; the first is the outermost.
func Chain(f Func, interceptors ...Interceptor) Func {
	for _, interceptor := range slices.Backward(interceptors) {
		f = interceptor(f)
	}
	return f
}

// Kind is the shape of a call.
type Kind uint8

// The shapes.
const (
	Unary     Kind = iota // one request, one response
	OneWay                // one request, no response
	Streaming             // any number of messages in both directions
)

// FailMode says what a client does when an attempt fails.
type FailMode uint8

// The fail modes.
const (
	// FailDefault is the client's own mode.
	FailDefault FailMode = iota
	// Failfast returns the first error.
	Failfast
	// Failover tries another instance.
	Failover
	// Failtry tries the same instance again.
	Failtry
	// Failsafe ignores the error: the call succeeds without a response.
	Failsafe
	// Failback queues a call that failed, and tries it again in the background.
	Failback
	// Broadcast makes the call at every instance.
	Broadcast
	// Fork makes the call at several instances; the first success wins.
	Fork
	// Backup makes a second attempt if the first takes long; the first success
	// wins.
	Backup
)

// Call is one call in flight, seen from either side. Its fields belong to the
// goroutine that runs the [Func]: no other goroutine may change them, and they must
// not be changed after the Func has returned.
type Call struct {
	Method string // "Service.Method"

	Kind       Kind
	Idempotent bool // a second execution does no harm, so it may be retried
	Keyed      bool // has a key, so it runs at most once and may be retried (client); a plugin sees to that (server)

	// FailMode says what a client does when an attempt fails. It selects the
	// chain before interceptors run, so options set it, and a change by an
	// interceptor has no effect.
	FailMode FailMode

	// Draw is a random number by which policies divide calls, the same for all attempts; 0 if the
	// client needs none.
	Draw uint32

	ends *end // next to Kind: both are read when the response arrives, so they share a cache line

	Metadata Metadata // of the request; a client writes it, a server reads it
	Trailer  Metadata // of the response; a server writes it, a client reads it

	Codec      string // name of the codec of this call's messages
	Compressor string // name of the compressor of messages to send; "" for none; a server may only clear it

	// Deadline is the instant by which the call must be done, zero for none.
	// A server derives it from the remaining time that the request carried.
	Deadline time.Time

	// AttemptTimeout is how long each attempt may take, within the Deadline; 0
	// means the client's own.
	AttemptTimeout time.Duration

	Attempt int // 0 for the first attempt, then 1, 2, …

	// The next fields are for the choice of an instance, on clients only.
	HashKey string   // calls with equal keys go to the same instance, if the policy hashes
	Pin     string   // the ID of the only instance allowed; "" for any
	Exclude []string // IDs of instances to avoid while others are left
	Route   *Route   // which instances the call may go to; nil for those that take any call. Must not be changed

	// Explain, if not nil, is called with the result of each attempt, possibly by several
	// goroutines at a time (client). Package client's Explain sets it.
	Explain func(attempt any)

	// Peer is the other end of the connection that the call arrived on (server),
	// or of the one chosen for the last attempt (client). It is never nil in a
	// chain. Calls share it, so it must not be changed.
	Peer *Peer

	// Identity is the authenticated identity of the caller; nil if it was not
	// authenticated. Interceptors that authenticate set it (server).
	Identity any

	// Body gives access to the messages. The layer below supplies it. On a
	// server an interceptor may replace it with one that wraps it; on a client
	// it must stay: the message is encoded before the chain runs.
	Body Body

	// Trace is the place of the call in a trace; zero when the call is not traced. A
	// tracing plugin sets it, on either side.
	Trace Trace

	owned ownership      // whether Metadata may be changed in place
	spare *spareMetadata // memory for SetMetadata, which Reset keeps; nil until it is needed
}

// ownership says whether a call owns its metadata.
type ownership uint8

const (
	others    ownership = iota // other calls may share it, or it is nil
	copied                     // the call owns it
	fromSpare                  // the call owns it, and its memory is that of Call.spare
)

// spareMetadata is a map with room for the values of a few pairs.
type spareMetadata struct {
	pairs  Metadata
	values [2]string
	used   int
}

// SetMetadata sets key to value in the call's metadata, in place of earlier values. It
// first copies metadata that the call does not own, as other calls may share it, and
// makes the map if there is none. The first two values that are set in that map need no
// allocation in a call that is reused.
func (c *Call) SetMetadata(key, value string) {
	switch {
	case c.Metadata == nil:
		if c.spare == nil {
			c.spare = &spareMetadata{pairs: Metadata{}}
		}
		c.Metadata, c.owned = c.spare.pairs, fromSpare
	case c.owned == others:
		c.Metadata, c.owned = c.Metadata.Clone(), copied
	}
	s := c.spare
	if c.owned != fromSpare || s.used == len(s.values) {
		c.Metadata.Set(key, value)
		return
	}
	s.values[s.used] = value
	c.Metadata.Set(key, s.values[s.used:s.used+1:s.used+1]...)
	s.used++
}

// Reset empties c and keeps its memory for the next call. The metadata of c must not be
// in use any more.
func (c *Call) Reset() {
	s := c.spare
	*c = Call{spare: s}
	if s != nil {
		clear(s.pairs)
		s.values, s.used = [2]string{}, 0
	}
}

// end is a function to run when the call has ended, and those registered
// before it. It is a list, as most calls have none.
type end struct {
	f      func(error)
	before *end
}

// Body gives access to the messages of a call.
//
// On a server Decode reads the request and Encode writes the response; on a
// client Encode writes the request and Decode reads the response. For a stream
// both fail and Stream is used instead.
type Body interface {
	// Decode decodes the received message into v. It may be called more than
	// once. The bytes are decompressed and decoded here, not before.
	Decode(v any) error
	// Encode encodes v as the message to send, replacing an earlier one.
	Encode(v any) error
	// Stream returns the call's message stream, or nil if it has none (yet).
	Stream() MessageStream
}

// OnEnd registers f to run exactly once when the call has ended, with its
// final error: for unary calls after the chain returned, for streams when the
// stream is over, and before a client's RecvMsg returns that: f must not
// receive from the stream. Trailer is set by then. Functions run in reverse
// order of registration.
func (c *Call) OnEnd(f func(error)) { c.ends = &end{f, c.ends} }

// End runs the functions registered with OnEnd. The layer that made the call
// calls it; a second time does nothing.
func (c *Call) End(err error) {
	ends := c.ends
	c.ends = nil
	for ; ends != nil; ends = ends.before {
		ends.f(err)
	}
}

// Clone returns a copy of the call for one attempt: metadata and exclusions are
// copied, OnEnd starts empty, the Body and the Route are shared. The code that makes
// the copy must call its End: after the attempt, or, if the attempt opened a stream,
// in a function given to the original's OnEnd, with the original's Trailer.
func (c *Call) Clone() *Call {
	d := *c
	d.Metadata = c.Metadata.Clone()
	d.Trailer = nil
	d.Exclude = append([]string(nil), c.Exclude...)
	d.ends, d.spare, d.owned = nil, nil, copied
	return &d
}

// CallOption changes a call before it is made and must not keep it. Package
// client has the options.
type CallOption func(*Call)

// Caller makes calls: a client, or a server's view of a connected client.
// It is safe for concurrent use.
type Caller interface {
	// Call makes a unary call and decodes the response into reply. A nil
	// reply discards it.
	Call(ctx context.Context, method string, args, reply any, opts ...CallOption) error
	// OpenStream opens a stream of untyped messages.
	OpenStream(ctx context.Context, method string, opts ...CallOption) (MessageStream, error)
}

// AnnounceMethod is the unary method by which a client tells a server the ID under
// which the server may call it: the arguments are the ID's bytes, in the codec raw,
// and the reply is empty. A server with package server's WithClients serves it.
const AnnounceMethod = "tandem.Announce"

type callKey struct{}

// ContextKey is the key under which a server's handler context holds its
// *[Call]. Use [FromContext].
func ContextKey() any { return callKey{} }

// FromContext returns the call that a server's handler runs for, or nil. Its
// Peer and Metadata are the caller's; the handler may set its Trailer.
func FromContext(ctx context.Context) *Call {
	c, _ := ctx.Value(callKey{}).(*Call)
	return c
}

// NewContext returns a context whose [FromContext] is call.
func NewContext(ctx context.Context, call *Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}
