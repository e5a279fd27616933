// Package reglog (experimental) logs the registrations of services and functions.
//
//	srv := server.New(server.WithPlugins(reglog.Func(func(text string) { log.Print(text) })))
package reglog

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/tandem-rpc/tandem/plugin"
)

// Func logs each registration as a line of text. It is a plugin for servers.
type Func func(text string)

// KeepsNothing implements [plugin.KeepsNothing].
func (Func) KeepsNothing() {}

// ServiceRegistered logs a registration.
func (f Func) ServiceRegistered(r *plugin.Registration) error {
	f(fmt.Sprintf("registered %s: %s", what(r), strings.Join(names(r), ", ")))
	return nil
}

// Logger logs each registration at level Info. It is a plugin for servers.
type Logger struct{ Log *slog.Logger }

// KeepsNothing implements [plugin.KeepsNothing].
func (Logger) KeepsNothing() {}

// ServiceRegistered logs a registration.
func (l Logger) ServiceRegistered(r *plugin.Registration) error {
	l.Log.Info("registered", "service", r.Service, "methods", names(r))
	return nil
}

func what(r *plugin.Registration) string {
	if r.Receiver == nil {
		return "function"
	}
	return fmt.Sprintf("service %s (%T)", r.Service, r.Receiver)
}

func names(r *plugin.Registration) (list []string) {
	for _, m := range r.Methods {
		list = append(list, m.Name)
	}
	return list
}
