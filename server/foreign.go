package server

import (
	"sync"

	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/overload"
	"github.com/tandem-rpc/tandem/internal/turn"
)

// foreignMethod is a method as calls of other protocols use it.
type foreignMethod struct {
	*dispatch.Method

	runs        turn.Method
	load        *overload.Method // the gate's state of the method; nil without a gate
	description Method
}

// short reports whether the goroutine that reads may make the next call: not if calls of the method
// may wait for each other.
func (m *foreignMethod) short() bool { return m.MaxConcurrency == 0 && m.runs.IsShort() }

// foreignMethods are the methods that were called so far.
type foreignMethods struct {
	server *Server
	known  sync.Map // *dispatch.Method to *foreignMethod
}

func (f *foreignMethods) of(m *dispatch.Method) *foreignMethod {
	if known, ok := f.known.Load(m); ok {
		return known.(*foreignMethod) //nolint:forcetypeassert // nothing else is stored
	}
	fresh := &foreignMethod{Method: m, description: f.server.describe(m)}
	if g := f.server.guard; g != nil {
		fresh.load = g.loadOf(m)
	}
	known, _ := f.known.LoadOrStore(m, fresh)
	return known.(*foreignMethod) //nolint:forcetypeassert // as above
}
