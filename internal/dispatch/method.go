package dispatch

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Method is an entry of a [Table]. Once added it is shared by all callers of Lookup
// and must not be changed.
type Method struct {
	// Name is "Service.Method", under which [Table.Lookup] finds the method; it may
	// have aliases besides.
	Name string
	// Kind is Unary or Streaming. Calls that are OneWay run Unary methods.
	Kind tandem.Kind
	// Func runs the method. In a table it is guarded against panics and
	// refuses calls of another kind.
	Func tandem.Func

	// reusing is Func with arguments that later calls reuse; nil where that is not
	// possible.
	reusing tandem.Func

	// Reuse says that neither the arguments nor the context are used after the
	// method has returned.
	Reuse bool

	// Guarded says that Func ends a call with the error of [WithRefusal], after the
	// plugins and interceptors of the method have let the call pass.
	Guarded bool

	// Safe says that a call changes nothing, so that it may be made at any time, and
	// repeated. It is data for protocols that treat such calls differently.
	Safe bool

	// The limits are only data here; package server enforces them.

	Timeout        time.Duration // longest run; 0 for the default, negative for none
	MaxConcurrency int           // calls at the same time; 0 for no limit
	MaxQueue       int           // calls that wait for their turn to run; further calls are refused
	MaxMessage     int           // bytes of a message, decompressed; 0 for the default

	Limiter any // what enforces MaxConcurrency, as Wrap has set it; nil for nothing

	// The next fields are for listings; nil and "" where they are not known.

	Args    []reflect.Type // types of the arguments, pointers removed
	Results []reflect.Type // types of the results, pointers removed, without the error
	In, Out reflect.Type   // types of a stream's messages
	Origin  string         // the Go function behind it
}

// Service returns the part of the name before its last dot, "" if it has none.
func (m *Method) Service() string {
	service, _ := splitName(m.Name)
	return service
}

// String returns the name, with the Go function behind it.
func (m *Method) String() string {
	if m.Origin == "" {
		return fmt.Sprintf("%q", m.Name)
	}
	return fmt.Sprintf("%q (%s)", m.Name, m.Origin)
}

func (m *Method) check() error {
	switch {
	case m.Func == nil:
		return fmt.Errorf("dispatch: method %q has no Func", m.Name)
	case m.Kind != tandem.Unary && m.Kind != tandem.Streaming:
		return fmt.Errorf("dispatch: method %q has kind %d; want tandem.Unary or tandem.Streaming", m.Name, m.Kind)
	case min(m.MaxConcurrency, m.MaxQueue, m.MaxMessage) < 0:
		return fmt.Errorf("dispatch: method %q has a negative limit", m.Name)
	}
	return checkName(m.Name)
}

// onlyFitting returns the method's Func, which refuses calls of another kind and in a codec
// that does not carry its messages. It is one Func to keep the stack shallow: the readers of a
// thousand connections each have one.
func (m *Method) onlyFitting() tandem.Func {
	name, f := m.Name, m.Func
	streaming, proto := m.Kind == tandem.Streaming, len(m.protoTypes()) > 0
	return func(ctx context.Context, call *tandem.Call) error {
		switch {
		case (call.Kind == tandem.Streaming) != streaming:
			return wrongKind(name, streaming)
		case proto && call.Codec == gobCodec:
			return notInGob(name)
		case !call.Keyed && call.IsKeyed():
			return notKept(name)
		}
		return f(ctx, call)
	}
}

// notKept returns the error of a call with a key that no plugin has taken care of: its caller
// retries it although it may have run.
func notKept(name string) error {
	return notExecuted(tandem.Errorf(tandem.Unimplemented, "method %s was called with a key, and nothing here runs calls with a key once: "+
		"give the server the plugin of package once", name))
}

func wrongKind(name string, streaming bool) error {
	is, called := "unary", "as a stream"
	if streaming {
		is, called = "a stream", "as unary"
	}
	return notExecuted(tandem.Errorf(tandem.Unimplemented, "method %s is %s and was called %s", name, is, called))
}
