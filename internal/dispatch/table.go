package dispatch

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
)

// Config is the configuration of a [Table]. The zero value is usable.
type Config struct {
	// OnPanic, if not nil, is called for methods that panic.
	OnPanic PanicFunc
	// Wrap, if not nil, returns the Func to use instead of m.Func, which is guarded
	// already: it adds limits and interceptors. guarded is Method.Guarded. Wrap is
	// called once a method, before the method is added (or refused as a
	// duplicate). It may set m.Limiter.
	Wrap func(m *Method) (f tandem.Func, guarded bool)
	// Codecs are the codecs of calls; nil if they are not known. Methods whose
	// messages none of them carries are refused.
	Codecs []tandem.Codec
	// OnChange, if not nil, is called when a registration is done.
	OnChange func()
	// OnRegister, if not nil, is called before a registration that would succeed, and
	// may refuse it with an error. It returns further aliases of methods and services,
	// as a map from alias to name; they are part of the registration. No lock is held:
	// it may register methods itself.
	OnRegister func(Registration) (aliases map[string]string, err error)
}

// Registration describes a registration before it is done.
type Registration struct {
	Service  string    // "" for a function whose name has no dot
	Receiver any       // the value that has the methods; nil for functions
	Methods  []*Method // not to be changed
}

// Table finds methods by name. All its methods are safe for concurrent use;
// Lookup never waits for the others. A registration that fails changes nothing.
type Table struct {
	config Config
	names  atomic.Pointer[map[string]*Method] // by names and aliases; a change replaces the map by a copy

	mu       sync.Mutex        // serialises changes
	services map[string]string // Go types of registered services, by name
	aliases  map[string]string // names of services, by alias
}

// New returns an empty table.
func New(config Config) *Table {
	t := &Table{config: config, services: make(map[string]string), aliases: make(map[string]string)}
	t.names.Store(new(map[string]*Method))
	return t
}

// Lookup returns the method with that name or alias, or nil. It takes no lock.
func (t *Table) Lookup(name string) *Method { return (*t.names.Load())[name] }

// Methods returns all methods, sorted by name, each once.
func (t *Table) Methods() []*Method {
	var methods []*Method
	for name, m := range *t.names.Load() {
		if name == m.Name {
			methods = append(methods, m)
		}
	}
	slices.SortFunc(methods, func(a, b *Method) int { return cmp.Compare(a.Name, b.Name) })
	return methods
}

// Services returns the names of all services, aliases included, sorted. Methods
// without a dot in their name belong to none.
func (t *Table) Services() []string {
	set := make(map[string]bool)
	for name := range *t.names.Load() {
		if service, _ := splitName(name); service != "" {
			set[service] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// HasService reports whether there is a service of that name or alias.
func (t *Table) HasService(name string) bool {
	for method := range *t.names.Load() {
		if service, _ := splitName(method); service == name {
			return service != ""
		}
	}
	return false
}

// Register registers the methods of rcvr under the name of its type, which must be
// exported. The package comment says which methods can be served; others are an
// error, and so is a service without any that can.
func (t *Table) Register(rcvr any, opts ...Option) error {
	if rcvr == nil {
		return errNilReceiver
	}
	typ := reflect.TypeOf(rcvr)
	if typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if name := typ.Name(); name == "" || !isExported(name) {
		return fmt.Errorf("dispatch: type %v has no exported name to register it under; use RegisterName", reflect.TypeOf(rcvr))
	}
	return t.RegisterName(typ.Name(), rcvr, opts...)
}

// RegisterName is Register under the given name instead of the type's. Only one
// RegisterName may use a name; functions and typed handlers may add methods to the
// service.
func (t *Table) RegisterName(name string, rcvr any, opts ...Option) error {
	if err := checkName(name); err != nil {
		return err
	}
	settings, err := newSettings(Method{Name: name}, opts)
	if err != nil {
		return err
	}
	s, err := newService(name, rcvr, settings)
	if err != nil {
		return err
	}
	methods, err := t.prepare(s.methods(settings))
	if err != nil {
		return err
	}
	if err := t.checkService(s, methods); err != nil && !settings.lenient {
		return err
	}
	return t.register(Registration{name, rcvr, methods},
		func(names map[string]*Method) error { return t.enterService(names, s, methods) })
}

// RegisterFunc registers a function under its full name, such as "Service.Method".
// It may have any signature that the package comment lists. A tandem.Func serves
// unary calls; use Add for one that serves streams.
func (t *Table) RegisterFunc(name string, fn any, opts ...Option) error {
	v := reflect.ValueOf(fn)
	if v.Kind() != reflect.Func {
		return fmt.Errorf("dispatch: %q: want a function, not %T", name, fn)
	}
	if v.IsNil() {
		return fmt.Errorf("dispatch: %q: the function is nil", name)
	}
	s, err := shapeOf(v.Type())
	if err != nil {
		return fmt.Errorf("dispatch: function %q can't be served: %w", name, err)
	}
	m := Method{Name: name, Origin: funcName(v)}
	m.Func, m.reusing = newFuncs(v, s)
	s.describe(&m)
	return t.Add(m, opts...)
}

// Add registers a method with its Func, such as [UnaryMethod] returns.
func (t *Table) Add(m Method, opts ...Option) error {
	s, err := newSettings(m, opts)
	if err != nil {
		return err
	}
	if len(s.methods) > 0 || s.netrpc || s.lenient {
		return fmt.Errorf("dispatch: %q: ForMethod, SkipUnsuitable and WithNetRPC are about services", m.Name)
	}
	methods, err := t.prepare([]Method{s.method})
	if err != nil {
		return err
	}
	return t.register(Registration{methods[0].Service(), nil, methods},
		func(names map[string]*Method) error { return t.enter(names, methods) })
}

// register calls OnRegister, if there is one, and then does the registration.
func (t *Table) register(r Registration, enter func(names map[string]*Method) error) error {
	if t.config.OnRegister == nil {
		return t.change(enter)
	}
	if err := t.apply(enter, false); err != nil {
		return err
	}
	aliases, err := t.config.OnRegister(r)
	if err != nil {
		return err
	}
	return t.change(func(names map[string]*Method) error {
		if err := enter(names); err != nil {
			return err
		}
		for _, alias := range slices.Sorted(maps.Keys(aliases)) {
			if err := t.enterAlias(names, alias, aliases[alias]); err != nil {
				return err
			}
		}
		return nil
	})
}

// prepare checks the methods and returns them as Lookup will: guarded
// and wrapped.
func (t *Table) prepare(methods []Method) ([]*Method, error) {
	ready := make([]*Method, len(methods))
	for i := range methods {
		m := methods[i]
		if err := m.check(); err != nil {
			return nil, err
		}
		if m.Reuse && m.reusing != nil {
			m.Func = m.reusing
		}
		if err := t.checkProto(&m); err != nil {
			return nil, err
		}
		m.Func = Guard(m.Name, m.onlyFitting(), t.config.OnPanic)
		if t.config.Wrap != nil {
			shown := m // a Func that Wrap makes may use it later
			m.Func, m.Guarded = t.config.Wrap(&shown)
			m.Limiter = shown.Limiter
		}
		if m.Func == nil {
			return nil, errors.New("dispatch: Config.Wrap returned nil")
		}
		ready[i] = &m
	}
	return ready, nil
}

// change applies f to a copy of the names and publishes the copy unless f
// fails.
func (t *Table) change(f func(names map[string]*Method) error) error {
	if err := t.apply(f, true); err != nil {
		return err
	}
	if t.config.OnChange != nil {
		t.config.OnChange()
	}
	return nil
}

// apply applies f to a copy of the names. It publishes the copy if f succeeds and keep
// is true; otherwise the table stays as it was.
func (t *Table) apply(f func(names map[string]*Method) error, keep bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	services, aliases := maps.Clone(t.services), maps.Clone(t.aliases)
	names := make(map[string]*Method)
	maps.Copy(names, *t.names.Load())
	err := f(names)
	if err != nil || !keep {
		t.services, t.aliases = services, aliases
		return err
	}
	t.names.Store(&names)
	return nil
}

// enterService adds the methods of s to names. t.mu is held.
func (t *Table) enterService(names map[string]*Method, s *service, methods []*Method) error {
	typ := s.value.Type().String()
	if before, ok := t.services[s.name]; ok {
		return fmt.Errorf("dispatch: service %q of %s: the name is taken by a service of %s; use RegisterName", s.name, typ, before)
	}
	if err := t.enter(names, methods); err != nil {
		return err
	}
	t.services[s.name] = typ
	return nil
}

// enter adds the methods to names. t.mu is held.
func (t *Table) enter(names map[string]*Method, methods []*Method) error {
	for _, m := range methods {
		if err := t.enterName(names, m.Name, m); err != nil {
			return err
		}
	}
	return nil
}

// enterName adds m to names under name, and under the names that the aliases of its
// service give it. t.mu is held.
func (t *Table) enterName(names map[string]*Method, name string, m *Method) error {
	service, method := splitName(name)
	if of, ok := t.aliases[service]; ok {
		return fmt.Errorf("dispatch: %q: service %q is an alias of %q; register it there", name, service, of)
	}
	if err := put(names, name, m); err != nil {
		return err
	}
	for alias, of := range t.aliases {
		if of != service {
			continue
		}
		if err := put(names, joinName(alias, method), m); err != nil {
			return err
		}
	}
	return nil
}

// put adds m to names under a name that must be free.
func put(names map[string]*Method, name string, m *Method) error {
	if err := checkName(name); err != nil {
		return err
	}
	if taken := names[name]; taken != nil {
		what := "method"
		if name != m.Name {
			what = fmt.Sprintf("alias %q of", name)
		}
		return fmt.Errorf("dispatch: %s %v: the name is taken by %v", what, m, taken)
	}
	names[name] = m
	return nil
}
