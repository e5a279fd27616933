package client

import (
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/internal/session"
)

// ServiceOption changes how the methods of a [WithService] are served.
type ServiceOption = dispatch.Option

// SkipUnsuitable leaves out the methods of a service that can't be served.
func SkipUnsuitable() ServiceOption { return dispatch.WithSkipUnsuitable() }

// WithServingPlugins adds plugins to what servers call on this client: the methods of
// [WithService] and [WithFunc], and those that do not exist. They are plugins of servers,
// as package server's WithPlugins documents them; those of plugin/auth, accesslog and
// ratelimit serve here as there. Asked are the points of calls, from BeforeRequestHeader
// to AfterResponse, ForMethod and Panicked; the points of connections and of
// registration are not. The Call's Peer is the server.
//
// A value that has none of these makes Dial fail.
func WithServingPlugins(plugins ...any) Option {
	return func(o *options) { o.servingPlugins = append(o.servingPlugins, plugins...) }
}

// serving is what is round the methods that a client serves.
type serving struct {
	plugins    []any
	maxMessage int
	onPanic    dispatch.PanicFunc
}

// check returns an error for a value that is no plugin.
func (s *serving) check() error {
	for _, p := range s.plugins {
		if !dispatch.IsPlugin(p) {
			return fmt.Errorf("%T implements no point of WithServingPlugins: see BeforeRequestHeader to Panicked in package server", p)
		}
	}
	return nil
}

// wrap puts the plugins round a method.
func (s *serving) wrap(m dispatch.Method) (f tandem.Func, guarded bool) {
	points := dispatch.PointsOf(s.plugins, m.Describe(s.maxMessage))
	if points == nil {
		return m.Func, false
	}
	return points.Wrap(session.Enter(m.Func), s.onPanic), true
}

// absent stands for methods that do not exist.
func (s *serving) absent() *dispatch.Method { return dispatch.Absent(s.plugins, nil, s.onPanic) }
