package call

import (
	"reflect"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/session"
)

// checkedTypes are types that were checked and belong to a method. An Outgoing is reused,
// mostly for the same method, which then needs no look-up.
type checkedTypes struct {
	method         string
	sent, received reflect.Type
}

// checkTypes returns an error if the method is known and has other arguments or another reply.
func (o *Outgoing) checkTypes(args, reply any) error {
	now := checkedTypes{o.Call.Method, reflect.TypeOf(args), reflect.TypeOf(reply)}
	if now == o.checked {
		return nil
	}
	if err := o.env.Checker().CheckMessages(now.method, now.sent, now.received); err != nil {
		return refused(tandem.InvalidArgument, "%v", err)
	}
	o.checked = now
	return nil
}

// checkedStream checks the types of a stream's messages. One goroutine may send while another
// receives.
type checkedStream struct {
	*callStream

	checker        session.MessageChecker
	sent, received reflect.Type // types of the last messages
}

// SendMsg sends v. It fails if the method has messages of another type.
func (st *checkedStream) SendMsg(v any) error {
	if t := reflect.TypeOf(v); t != st.sent {
		if err := st.checker.CheckMessages(st.call.Method, t, nil); err != nil {
			return &tandem.Error{Code: tandem.InvalidArgument, Message: err.Error()}
		}
		st.sent = t
	}
	return st.callStream.SendMsg(v)
}

// RecvMsg receives into v. It fails if the method has messages of another type.
func (st *checkedStream) RecvMsg(v any) error {
	if t := reflect.TypeOf(v); t != st.received {
		if err := st.checker.CheckMessages(st.call.Method, nil, t); err != nil {
			return &tandem.Error{Code: tandem.InvalidArgument, Message: err.Error()}
		}
		st.received = t
	}
	return st.callStream.RecvMsg(v)
}
