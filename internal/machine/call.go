package machine

import (
	"math"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/wire"
)

// Call is what the machine needs of a call that this side makes. The session
// embeds it, sets what to send before Open, and must not change that until the call is over.
type Call struct {
	// Written by the machine until the call is over. These fields come first, to be in one
	// cache line: one processor writes them, and another reads them.
	State  State
	codec  uint8 // the peer's number of the codec
	packer uint8 // the peer's number of the compressor; 0 for none
	// ReplyCompressed says that the response's message is compressed.
	ReplyCompressed bool
	Compressed      bool // Message is compressed
	OneWay          bool
	UsualDeadline   bool // for the session: the deadline is a default

	Stream  *Stream // set before Open for a stream; nil for another call
	rest    *bulk   // the part of the request that is not sent yet
	answer  *assembly
	payload *buffer.Buffer // the response: head and message
	Done    chan struct{}  // for the session: where it announces that the call is over
	Err     *tandem.Error  // set when the call ended without a response

	id      wire.Stream
	Expires int64  // ns; the deadline, 0 for none
	Ordinal uint64 // number of the request on this connection, from 1
	end     uint64 // position of the request's end in all that is written; notSent while it is open
	body    int    // where the message starts in a response of several blocks

	// For the session: of a call at a peer that is silent.
	SuspectSince int64        // ns; since when the call has waited there; 0 if it has not
	Movable      *tandem.Call // the attempt, if a retry elsewhere may replace it; else nil

	Method     string
	Codec      string
	Compressor string // of the request and the response; "" for none
	Message    []byte // encoded
	Metadata   []byte // encoded
	Attempt    int

	Trailer tandem.Metadata // of a stream that is over
}

// State is how far a call of this side is.
type State uint8

// States of a call.
const (
	CallNew    State = iota
	CallQueued       // waits for a slot or for room
	CallOpen         // sent, or being sent
	CallOver         // the peer has answered or accepted it, or it has failed: see Call.Err
	CallLeft         // the caller has given it up
)

// notSent is the end of a request whose last block is not in the write buffer yet.
const notSent = math.MaxUint64

// Copied reports whether the whole message is in the write buffer.
func (c *Call) Copied() bool { return c.State != CallQueued && c.rest == nil }

// Parse parses the head of the response of a call that is over without an Err, and returns its
// message. The memory is valid until Forget.
func (c *Call) Parse(r *wire.Response) (message []byte, err error) {
	payload := c.payload.Whole()
	if message, err = wire.ParseResponse(payload, r); err != nil {
		return nil, err
	}
	if c.body > 0 {
		message = payload[c.body:]
	}
	return message, nil
}

// Forget gives back the memory of the response.
func (c *Call) Forget() { c.payload.Put() }

// complete marks c over. The session must then announce it.
func (c *Call) complete(err *tandem.Error) {
	c.State, c.Err, c.rest, c.answer = CallOver, err, nil, nil
}
