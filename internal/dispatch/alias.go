package dispatch

import (
	"fmt"
	"strings"
)

// Alias gives a method or a service one more name. Calls under either name
// reach the same [Method].
//
// If name is a method's, alias is a full method name. Otherwise name is a
// service's: alias becomes a service with all its methods (and their aliases),
// those yet to be registered included. Nothing else can be registered under a
// service name that is an alias.
func (t *Table) Alias(alias, name string) error {
	return t.change(func(names map[string]*Method) error { return t.enterAlias(names, alias, name) })
}

// enterAlias adds an alias to names. t.mu is held.
func (t *Table) enterAlias(names map[string]*Method, alias, name string) error {
	if err := checkName(alias); err != nil {
		return err
	}
	if m := names[name]; m != nil {
		return t.enterName(names, alias, m)
	}
	return t.aliasService(names, alias, name)
}

// aliasService adds the names that the methods of a service have under its new
// alias. t.mu is held.
func (t *Table) aliasService(names map[string]*Method, alias, service string) error {
	if of, ok := t.aliases[service]; ok {
		service = of
	}
	if len(methodsOf(names, service)) == 0 {
		return fmt.Errorf("dispatch: alias %q: no method or service is named %q", alias, service)
	}
	if len(methodsOf(names, alias)) > 0 {
		return fmt.Errorf("dispatch: alias %q of service %q: there is a service %q", alias, service, alias)
	}
	for method, m := range methodsOf(names, service) {
		if err := put(names, joinName(alias, method), m); err != nil {
			return err
		}
	}
	t.aliases[alias] = service
	return nil
}

// methodsOf returns the methods of a service by their names without the service.
func methodsOf(names map[string]*Method, service string) map[string]*Method {
	methods := make(map[string]*Method)
	for name, m := range names {
		if of, method := splitName(name); of == service && strings.Contains(name, ".") {
			methods[method] = m
		}
	}
	return methods
}

// Own returns a method's name under the service's own name: it replaces the alias of a service. The
// method need not exist.
func (t *Table) Own(name string) string {
	service, method := splitName(name)
	t.mu.Lock()
	defer t.mu.Unlock()
	if own, ok := t.aliases[service]; ok {
		return joinName(own, method)
	}
	return name
}

// Aliases returns the names that methods have besides their own, each with the
// method's own name. The caller may change the map.
func (t *Table) Aliases() map[string]string {
	aliases := make(map[string]string)
	for name, m := range *t.names.Load() {
		if name != m.Name {
			aliases[name] = m.Name
		}
	}
	return aliases
}
