package call

import (
	"slices"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/buffer"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/wire"
)

// What follows is for those who make more of a call than one attempt after the
// other.

// Share lets several attempts at the call run at a time, and notes where they
// go. It must come before the first.
func (o *Outgoing) Share() {
	if o.first != nil {
		o.first.Release()
		o.first = nil
	}
	o.shared, o.noting = true, true
}

// Tried returns the instances at which attempts at a shared call have begun.
func (o *Outgoing) Tried() []string {
	o.lock()
	defer o.unlock()
	return slices.Clone(o.tried)
}

// AnsweredBy returns who gave the answer that counts, nil while there is none.
func (o *Outgoing) AnsweredBy() *tandem.Peer {
	o.lock()
	defer o.unlock()
	return o.by
}

// Accept says that an attempt has succeeded, also for whoever stood between.
func (o *Outgoing) Accept(attempt *tandem.Call) {
	o.lock()
	defer o.unlock()
	if o.answer != nil && o.of == attempt {
		o.sure, o.spare = true, nil // their memory is the collector's
	}
}

// Refuse says that an attempt has failed, though it may have brought an answer, or a
// stream: whoever stood between would not have it. That of another attempt counts.
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
		o.spare = slices.DeleteFunc(o.spare, func(b brought) bool { return b.of == attempt })
	}
	st := o.stream
	o.stream = nil // of streams one is opened at a time
	o.unlock()
	if answer != nil && !o.shared { // of a shared call somebody may be decoding it
		o.drop(answer)
	}
	if st != nil {
		_ = st.Close()
	}
}

// Load returns the report that came with the answer, if one did.
func (o *Outgoing) Load() (wire.Load, bool) {
	o.lock()
	defer o.unlock()
	if o.answer == nil {
		return wire.Load{}, false
	}
	return o.answer.Load, o.answer.HasLoad
}

// Forgo says that the call succeeds without an answer: what Decode is given
// stays as it was.
func (o *Outgoing) Forgo() {
	o.lock()
	defer o.unlock()
	o.forgone = true
}

// Detach returns another call like this copy of o's, with arguments of its own:
// o's memory is another call's once its caller has returned. It must be
// released. Its error is that the arguments, which were encoded once, can't be again.
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
