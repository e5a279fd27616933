// Package recovery tells of panics. A server catches them in any case, gives the caller
// Internal without a word of what happened, and logs them; this counts them and hands
// them to a function of yours.
//
//	panics := recovery.New(func(p recovery.Panic) { alert(p.Method, p.Value, p.Stack) })
//	srv := server.New(server.WithPlugins(panics))
package recovery

import (
	"sync/atomic"

	"github.com/tandem-rpc/tandem/server"
)

// Panic is what did not return.
type Panic struct {
	Method string // or what else panicked, as "a plugin at Arith.Mul"
	Value  any    // an error if the goroutine was ended
	Stack  []byte // its top, at most 64 KiB
}

// Plugin is a plugin for servers. It is safe for concurrent use.
type Plugin struct {
	tell  func(Panic)
	count atomic.Uint64
}

var _ server.Panicked = (*Plugin)(nil)

// New returns a plugin that hands each panic to tell, on the goroutine that it happened
// on; nil for nobody.
func New(tell func(Panic)) *Plugin { return &Plugin{tell: tell} }

// KeepsNothing is a promise to the server.
func (*Plugin) KeepsNothing() {}

// Count returns how many panics there were.
func (p *Plugin) Count() uint64 { return p.count.Load() }

// Panicked counts a panic and hands it on.
func (p *Plugin) Panicked(what string, value any, stack []byte) {
	p.count.Add(1)
	if p.tell != nil {
		p.tell(Panic{what, value, stack})
	}
}
