package session

import (
	"context"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/estimate"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/internal/overload"
)

// Target is a method that a peer may call.
type Target struct {
	machine.Method // Reuse says that the context may be reused, Guarded that Func ends a call with the error of WithRefusal

	Name  string
	Func  tandem.Func // the method with its interceptors
	Spawn bool        // never run in the reader: it may wait

	overloaded string // the message of calls that the gate refuses

	load  *overload.Method // the gate's record of the method; nil for methods that do not pass the gate
	light int              // length in bytes up to which a message is decoded without an estimate; 0 if the type is not known
	slow  atomic.Int32     // how many more runs are kept out of the reader
}

// A method that held up a reader is kept out of it until it has been quick
// this many times in a row.
const (
	slowRuns  = 32
	quickTime = 50 * time.Microsecond
)

func (t *Target) inline() bool { return !t.Spawn && t.slow.Load() == 0 }

func (t *Target) markSlow() { t.slow.Store(slowRuns) }

// observe records the duration of a run outside the reader.
func (t *Target) observe(took time.Duration) {
	switch {
	case t.Spawn:
	case took > quickTime:
		t.markSlow()
	case t.slow.Load() > 0:
		t.slow.Add(-1)
	}
}

// Targets returns a [Config]'s Resolve that finds methods in a table. Methods
// without a timeout of their own get timeout. If calls are intercepted, no context is
// reused, as an interceptor may keep it. absent returns the method that stands for those
// that do not exist, or nil. loads returns the gate's record of a method; it is nil without
// a gate.
func Targets(table *dispatch.Table, timeout time.Duration, intercepted bool, absent func() *dispatch.Method, loads func(*dispatch.Method) *overload.Method) func(string) *Target {
	var known sync.Map // *dispatch.Method to *Target, which outlives connections
	return func(name string) *Target {
		m := table.Lookup(name)
		isAbsent := m == nil
		if isAbsent {
			m = absent()
		}
		if m == nil {
			return nil
		}
		if t, ok := known.Load(m); ok {
			return t.(*Target) //nolint:forcetypeassert // nothing else is stored
		}
		fresh := newTarget(m, timeout)
		fresh.Absent = isAbsent
		if loads != nil && !isAbsent && m.Kind == tandem.Unary {
			fresh.load = loads(m)
		}
		fresh.Reuse = m.Reuse && m.Kind == tandem.Unary && !intercepted
		t, _ := known.LoadOrStore(m, fresh)
		return t.(*Target) //nolint:forcetypeassert // as above
	}
}

func newTarget(m *dispatch.Method, timeout time.Duration) *Target {
	if m.Timeout != 0 {
		timeout = max(0, m.Timeout)
	}
	return &Target{
		light: lightest(m), overloaded: "the server is overloaded: " + m.Name + " could not end in time",
		Method: machine.Method{Kind: m.Kind, Timeout: timeout, MaxMessage: m.MaxMessage, Guarded: m.Guarded},
		Name:   m.Name, Func: m.Func,
		Spawn: m.MaxConcurrency > 0, // it may wait in the queue
	}
}

// lightest returns the length in bytes up to which a message of the method needs no estimate;
// 0 if its types are not known.
func lightest(m *dispatch.Method) (n int) {
	types := m.Args
	if m.In != nil {
		types = []reflect.Type{m.In}
	}
	for _, t := range types {
		if light := estimate.Light(t); n == 0 || light < n {
			n = light
		}
	}
	return n
}

// isLight reports whether decoding a message of n bytes into v needs no estimate of its
// memory.
func (t *Target) isLight(n int, v any) bool {
	if t.light > 0 {
		return n <= t.light
	}
	return n <= estimate.Light(reflect.TypeOf(v))
}

// refusing returns a Target in place of t for a call that interceptors see and that is refused with e.
func (t *Target) refusing(e *tandem.Error) *Target {
	return &Target{Name: t.Name, Method: machine.Method{Kind: t.Kind, Timeout: t.Timeout}, Spawn: !t.inline(), Func: func(ctx context.Context, call *tandem.Call) error {
		call.Body = dispatch.NoBody(e)
		return t.Func(WithRefusal(ctx, e), call)
	}}
}
