package client

import (
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/points"
	"github.com/tandem-rpc/tandem/internal/session"
)

// ServiceOption changes how the methods of a [WithService] are served.
type ServiceOption = dispatch.Option

// SkipUnsuitable leaves out the methods of a service that can't be served.
func SkipUnsuitable() ServiceOption { return dispatch.WithSkipUnsuitable() }

// Serving are plugins for [WithPlugins] that are for calls that servers make on this client: to the
// methods of [WithService] and [WithFunc], and to methods that do not exist. They are plugins of
// servers, as package [github.com/tandem-rpc/tandem/plugin] documents them; those of plugin/auth,
// accesslog and ratelimit work here as there. The points of calls, from BeforeRequestHeader to
// AfterResponse, ForMethod and Panicked are called; the points of connections and of registration
// are not. The Call's Peer is the server.
//
// A value that has none of these makes Dial fail.
type Serving []any

// serving holds the plugins and the limit of the methods that a client serves.
type serving struct {
	plugins    []any
	maxMessage int
	onPanic    dispatch.PanicFunc
}

// check returns an error for a value that is no plugin.
func (s *serving) check() error {
	for _, p := range s.plugins {
		if !points.IsOfMethods(p) {
			return fmt.Errorf("%T implements no point of client.Serving: see BeforeRequestHeader to PerMethod in package plugin", p)
		}
	}
	return nil
}

// wrap wraps a method in the plugins.
func (s *serving) wrap(m *dispatch.Method) (f tandem.Func, guarded bool) {
	p := points.OfMethod(s.plugins, points.Describe(m, s.maxMessage), s.onPanic)
	if p == nil {
		return m.Func, false
	}
	return p.Wrap(session.Enter(m.Func)), true
}

// absent returns the method that is called in place of those that do not exist.
func (s *serving) absent() *dispatch.Method { return points.Absent(s.plugins, nil, s.onPanic) }
