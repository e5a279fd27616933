package dispatch

import (
	"fmt"
	"time"
)

// Option changes how a method, or every method of a service, is registered.
type Option func(*settings)

// settings are the result of the options of one registration.
type settings struct {
	method  Method              // has the limits
	netrpc  bool                // net/rpc's shape only
	lenient bool                // methods that can't be served are left out
	methods map[string][]Option // by Go name, see ForMethod

	// These two are for one method of a service, inside ForMethod.
	name   string
	hidden bool
}

func newSettings(m Method, opts []Option) (*settings, error) {
	s := &settings{method: m, methods: make(map[string][]Option)}
	s.apply(opts)
	if s.name != "" || s.hidden {
		return nil, fmt.Errorf("dispatch: %q: WithName and WithHidden are about one method of a service: put them into ForMethod", m.Name)
	}
	return s, nil
}

func (s *settings) apply(opts []Option) {
	for _, o := range opts {
		o(s)
	}
}

// of returns the settings for one method: those of the service, then its own.
func (s *settings) of(goName string) settings {
	one := *s
	one.apply(s.methods[goName])
	return one
}

// WithTimeout sets the longest time that a call may run; negative for none.
func WithTimeout(d time.Duration) Option {
	return func(s *settings) { s.method.Timeout = d }
}

// WithConcurrency lets each method run at most the given number of calls at the same
// time, while at most queue more wait. Further calls are refused.
func WithConcurrency(calls, queue int) Option {
	return func(s *settings) { s.method.MaxConcurrency, s.method.MaxQueue = calls, queue }
}

// WithMaxMessage limits the size of a message, decompressed, to n bytes.
func WithMaxMessage(n int) Option {
	return func(s *settings) { s.method.MaxMessage = n }
}

// WithReuse lets later calls of a method decode their arguments into the memory
// of earlier ones: the method must not use the arguments, and what they point to,
// after it has returned and its results are encoded. They are cleared in between.
// The same holds for its context (see [Method].Reuse). The option has no effect on
// streams, hijacked methods and functions that decode arguments themselves.
func WithReuse() Option {
	return func(s *settings) { s.method.Reuse = true }
}

// WithSafe says that a method changes nothing (see [Method].Safe).
func WithSafe() Option {
	return func(s *settings) { s.method.Safe = true }
}

// WithNetRPC registers only methods of net/rpc's shape, a leading context
// allowed, and skips all others of the service.
func WithNetRPC() Option {
	return func(s *settings) { s.netrpc = true }
}

// WithSkipUnsuitable registers the methods of a service that can be served, and leaves
// out the others; without it they are an error.
func WithSkipUnsuitable() Option {
	return func(s *settings) { s.lenient = true }
}

// ForMethod applies options to one method of a service, by its name in Go.
// They come after the service's own options. It is an error if the service has
// no such method or if it can't be served.
//
//	t.Register(new(Arith),
//		dispatch.WithTimeout(time.Second),
//		dispatch.ForMethod("Mul", dispatch.WithName("multiply")))
func ForMethod(goName string, opts ...Option) Option {
	return func(s *settings) { s.methods[goName] = append(s.methods[goName], opts...) }
}

// WithName serves a method of a service under another name than its name in Go: "mul"
// makes it "Service.mul". For use in [ForMethod]. A method has one name; give it more
// with [Table.Alias].
func WithName(name string) Option {
	return func(s *settings) { s.name = name }
}

// WithHidden leaves a method of a service out. For use in [ForMethod].
func WithHidden() Option {
	return func(s *settings) { s.hidden = true }
}
