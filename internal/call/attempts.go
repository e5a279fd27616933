package call

import (
	"slices"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/wire"
)

// Share allows parallel attempts at the call, and records their instances. It must be called
// before the first attempt.
func (o *Outgoing) Share() {
	if o.first != nil {
		o.first.Release()
		o.first = nil
	}
	o.shared, o.recordTried = true, true
}

// Tried returns the instances at which attempts at a shared call have begun.
func (o *Outgoing) Tried() []string {
	o.lock()
	defer o.unlock()
	return slices.Clone(o.tried)
}

// AnsweredBy returns the peer whose response counts; nil if there is none yet.
func (o *Outgoing) AnsweredBy() *tandem.Peer {
	o.lock()
	defer o.unlock()
	return o.by
}

// Accept records that an attempt has succeeded, including the interceptors around it.
func (o *Outgoing) Accept(attempt *tandem.Call) {
	o.lock()
	defer o.unlock()
	if o.answer != nil && o.of == attempt {
		o.accepted, o.spare = true, nil // the garbage collector frees the others
	}
}

// Refuse records that an attempt has failed although it may have received a response or a
// stream: an interceptor returned an error. The response of another attempt counts then.
func (o *Outgoing) Refuse(attempt *tandem.Call) {
	o.lock()
	var answer *session.Pending
	if o.answer != nil && o.of == attempt {
		answer, o.answer, o.by, o.of = o.answer, nil, nil, nil
		if len(o.spare) > 0 {
			next := o.spare[0]
			o.answer, o.by, o.of, o.spare = next.answer, next.by, next.of, o.spare[1:]
		}
	} else {
		o.spare = slices.DeleteFunc(o.spare, func(b spareResponse) bool { return b.of == attempt })
	}
	st := o.stream
	o.stream = nil // only one stream is opened at a time
	o.unlock()
	if answer != nil && !o.shared { // the caller of a shared call may be decoding it
		o.drop(answer)
	}
	if st != nil {
		_ = st.Close()
	}
}

// Load returns the load report of the response, if there is one.
func (o *Outgoing) Load() (wire.Load, bool) {
	o.lock()
	defer o.unlock()
	if o.answer == nil {
		return wire.Load{}, false
	}
	return o.answer.Load, o.answer.HasLoad
}

// Forgo makes the call succeed without a response: Decode changes nothing.
func (o *Outgoing) Forgo() {
	o.lock()
	defer o.unlock()
	o.forgone = true
}

// Detach returns a copy of o with memory of its own, since o is reused once its caller
// has returned. call is the copy of o's Call to start from. The caller must release the copy.
// It fails if the arguments can't be encoded again.
func (o *Outgoing) Detach(call *tandem.Call) (*Outgoing, error) {
	message, err := o.encoded()
	if err != nil {
		return nil, err
	}
	d := &Outgoing{
		Call: *call.Clone(), Points: o.Points, Rule: o.Rule,
		env: o.env, codec: o.codec, packed: o.packed, several: o.several, shared: true, usualDeadline: o.usualDeadline,
		message: &buffer.Buffer{B: slices.Clone(message.B)},
	}
	d.Call.Body = d
	return d, nil
}
