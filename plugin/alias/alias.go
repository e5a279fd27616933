// Package alias (stable) gives services and methods further names when they are registered, so
// that clients which know them by other names find them.
//
//	names := alias.Names{"Calculator": "Arith", "Arith.Times": "Arith.Mul"}
//	srv := server.New(server.WithPlugins(names))
package alias

import "github.com/tandem-rpc/tandem/plugin"

// Names maps each further name to the name of the service or method that it stands for. It is a
// plugin for servers and must not be changed afterwards.
//
// A name that is never registered gets no alias, and an alias that is taken fails the
// registration.
type Names map[string]string

// KeepsNothing implements [plugin.KeepsNothing].
func (Names) KeepsNothing() {}

// ServiceRegistered adds the aliases of the registered names.
func (n Names) ServiceRegistered(r *plugin.Registration) error {
	registered := map[string]bool{}
	for _, m := range r.Methods {
		registered[m.Name] = true
	}
	for alias, name := range n {
		if registered[name] || name == r.Service && r.Receiver != nil {
			r.Alias(alias, name)
		}
	}
	return nil
}
