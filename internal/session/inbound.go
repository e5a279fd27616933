package session

import (
	"fmt"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/budget"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/internal/overload"
)

// Inbound is a call that the peer makes: one allocation that is the handler's
// context, its [tandem.Call] and the call's [tandem.Body].
type Inbound struct {
	machine.Request

	call   tandem.Call
	s      *Session
	method *method

	counted int // bytes of the response that are included in Session.encoded; guarded by the session's mutex

	waited int64             // ns of waiting for memory since the call began
	slot   overload.Slot     // of a call that the gate counts
	waits  *overload.Request // the entry in the gate's queue, present or past; guarded by the session's mutex

	apart   bool   // runs in a goroutine of its own
	large   bool   // the request arrived in several blocks
	unheld  bool   // the memory of its copy is not reserved yet
	ended   ending // how the context ended; guarded by ctxMu, as are entered and asked
	entered int8   // how often the method began and did not say that it had not run; see Enter
	awaits  Awaits // what the handler's goroutine waits for; guarded by the session's mutex, as is place
	place   uint16 // index in Session.oneWays

	ctxMu sync.Mutex
	asked *doneContext // nil until Done or AfterFunc is called

	hold   *budget.Hold // memory of a large request; nil while nothing is reserved
	stream *Stream      // nil if the call is not a stream
}

func newInbound() *Inbound {
	if in, ok := inbounds.Get().(*Inbound); ok {
		return in
	}
	return new(Inbound)
}

// recycle returns an Inbound to the pool, with the buffer of its response. No
// goroutine may hold it any more.
func (in *Inbound) recycle() {
	pairs := in.Pairs
	if pairs != nil && !pairs.Small() {
		pairs = nil
	}
	*in = Inbound{Request: machine.Request{Reply: in.Reply.Keep(), Pairs: pairs}}
	inbounds.Put(in)
}

func (in *Inbound) codec() tandem.Codec { return in.s.env.cfg.Codecs[in.Codec] }

// compressor returns the compressor that the caller chose; in.Compressor must not be 0.
func (in *Inbound) compressor() tandem.Compressor { return in.s.env.cfg.Compressors[in.Compressor-1] }

func refused(code tandem.Code, format string, args ...any) *tandem.Error {
	return &tandem.Error{Code: code, Message: fmt.Sprintf(format, args...), NotExecuted: true}
}
