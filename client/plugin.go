package client

import (
	"fmt"

	"github.com/tandem-rpc/tandem/internal/points"
)

// WithPlugins adds plugins: values that implement one or more of the points of a client, which
// package [github.com/tandem-rpc/tandem/plugin] declares, with the order in which they are called.
// Calls, one-way calls and streams pass them.
//
// A value that implements no point, and is not [Serving], makes Dial fail.
func WithPlugins(plugins ...any) Option {
	return func(o *options) {
		o.given.Add("WithPlugins")
		for _, p := range plugins {
			if s, ok := p.(Serving); ok {
				o.given.Add("WithPlugins: Serving")
				o.servingPlugins = append(o.servingPlugins, s...)
			} else {
				o.plugins = append(o.plugins, p)
			}
		}
	}
}

// checkPlugins returns an error for a value that is no plugin.
func checkPlugins(plugins []any) error {
	for _, p := range plugins {
		if !points.IsOfClient(p) {
			return fmt.Errorf("%T implements no point of WithPlugins: see Connected to AfterCall in package plugin", p)
		}
	}
	return nil
}
