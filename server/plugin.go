package server

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/tandem-rpc/tandem/internal/points"
)

// WithPlugins adds plugins: values that implement one or more of the points of a server, which
// package [github.com/tandem-rpc/tandem/plugin] declares, with the order in which they are called.
// All protocols on the port pass the same points, and so do streams. Plugins apply to all methods
// of the server.
//
// A value that implements no point, or is given twice, makes Serve fail.
func WithPlugins(plugins ...any) Option {
	return func(o *options) {
		o.given.Add("WithPlugins")
		o.plugins = append(o.plugins, plugins...)
	}
}

// checkPlugins returns an error for a value that is not a plugin, and for one that is given
// twice, as it would act on each call twice.
func checkPlugins(plugins []any) error {
	for i, p := range plugins {
		if t := reflect.TypeOf(p); t != nil && t.Kind() == reflect.Pointer && t.Elem().Size() > 0 && slices.Contains(plugins[:i], p) {
			return fmt.Errorf("%T is given twice: give WithPlugins each plugin once", p)
		}
		if !points.IsOfServer(p) {
			return fmt.Errorf("%T implements no point of WithPlugins: see ServiceRegistered to PerMethod in package plugin", p)
		}
	}
	return nil
}
