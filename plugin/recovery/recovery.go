// Package recovery (stable) reports panics. A server always recovers them, gives the caller
// Internal without details, and logs them; this plugin counts them and passes
// them to a function of yours.
//
//	panics := recovery.New(func(p recovery.Panic) { alert(p.Method, p.Value, p.Stack) })
//	srv := server.New(server.WithPlugins(panics))
package recovery

import (
	"sync/atomic"

	"github.com/tandem-rpc/tandem/plugin"
)

// Panic describes a panic, or a handler that has ended its goroutine.
type Panic struct {
	Method string // or what else panicked, such as "a plugin at Arith.Mul"
	Value  any    // an error if the goroutine was ended
	Stack  []byte // its top, at most 64 KiB
}

// Plugin is a plugin for servers. It is safe for concurrent use.
type Plugin struct {
	tell  func(Panic)
	count atomic.Uint64
}

var _ plugin.Panicked = (*Plugin)(nil)

// New returns a plugin that calls tell with each panic, on the goroutine that panicked; tell
// may be nil.
func New(tell func(Panic)) *Plugin { return &Plugin{tell: tell} }

// KeepsNothing implements [plugin.KeepsNothing].
func (*Plugin) KeepsNothing() {}

// Count returns how many panics there were.
func (p *Plugin) Count() uint64 { return p.count.Load() }

// Panicked counts a panic and passes it to the function given to New.
func (p *Plugin) Panicked(what string, value any, stack []byte) {
	p.count.Add(1)
	if p.tell != nil {
		p.tell(Panic{what, value, stack})
	}
}
