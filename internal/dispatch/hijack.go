package dispatch

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	"github.com/tandem-rpc/tandem"
)

// Hijacker lets the service that embeds it run some of its methods by hand:
// without reflection for arguments that are read one by one, or with results
// written as they come. If the service has a method Setup(), it is called when
// the service is registered, before its methods are fixed:
//
//	type Counter struct {
//		dispatch.Hijacker
//		count atomic.Int64
//	}
//
//	func (c *Counter) Get() (int64, error) { return c.count.Load(), nil }
//
//	func (c *Counter) Setup() {
//		c.HijackProcess("Get", func(stub *dispatch.Stub) { stub.Write(c.count.Load()) })
//	}
//
// The signature of the overridden method still determines the messages. Setup and
// HijackProcess themselves are never served. Such a service must be registered by
// pointer.
type Hijacker struct {
	mu      sync.Mutex
	service *service // the service that is being set up, or nil
	err     error    // the first error of HijackProcess
}

// hijackable is a service that embeds a Hijacker.
type hijackable interface{ hijacker() *Hijacker }

var hijackableType = reflect.TypeFor[hijackable]()

func (h *Hijacker) hijacker() *Hijacker { return h }

// HijackProcess makes f run the calls of a method, given by its name in Go. It is
// for use in Setup. It returns an error if the service has no such method to serve,
// the method is a stream or a [tandem.Func], f is nil, or the method was hijacked
// before. The error also fails the registration, so Setup may ignore it.
func (h *Hijacker) HijackProcess(name string, f func(*Stub)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.service == nil {
		return fmt.Errorf("dispatch: hijack %s: call HijackProcess in the service's Setup method only", name)
	}
	err := h.service.hijack(name, f)
	if err != nil && h.err == nil {
		h.err = err
	}
	return err
}

// begin and end enclose Setup. They return an error if it can't run, or failed.
func (h *Hijacker) begin(s *service) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.service != nil {
		return fmt.Errorf("dispatch: service %q is being registered elsewhere at this moment", s.name)
	}
	h.service = s
	return nil
}

func (h *Hijacker) end() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.err
	h.service, h.err = nil, nil
	return err
}

// isHook reports whether a method of t belongs to hijacking and is not served.
func isHook(t reflect.Type, method string) bool {
	return (method == "Setup" || method == "HijackProcess") && t.Implements(hijackableType)
}

// setUp calls the Setup method of a service that embeds a Hijacker.
func (s *service) setUp(rcvr any) error {
	t := s.value.Type()
	target, ok := rcvr.(hijackable)
	if !ok && reflect.PointerTo(t).Implements(hijackableType) {
		return fmt.Errorf("dispatch: service %q embeds a Hijacker: register a pointer to the %v", s.name, t)
	}
	if _, found := t.MethodByName("Setup"); !ok || !found {
		return nil
	}
	hook, ok := rcvr.(interface{ Setup() })
	if !ok {
		return fmt.Errorf("dispatch: service %q embeds a Hijacker: its Setup must be func()", s.name)
	}
	h := target.hijacker()
	if h == nil {
		return fmt.Errorf("dispatch: service %q embeds a nil *Hijacker; embed the Hijacker itself", s.name)
	}
	return h.run(s, hook.Setup)
}

// run runs the Setup method of s. A panic of Setup goes on to the code that registers s.
func (h *Hijacker) run(s *service, setup func()) (err error) {
	if err := h.begin(s); err != nil {
		return err
	}
	defer func() { err = h.end() }()
	setup()
	return nil
}

// hijack records that f runs a method.
func (s *service) hijack(goName string, f func(*Stub)) error {
	shape := s.shapes[goName]
	switch {
	case f == nil:
		return fmt.Errorf("dispatch: hijack %s.%s: the function is nil", s.name, goName)
	case shape == nil:
		return fmt.Errorf("dispatch: hijack %s.%s: %w", s.name, goName, s.why(goName))
	case shape.stream != nil || shape.isFunc:
		return fmt.Errorf("dispatch: hijack %s.%s: streams and a tandem.Func handle their messages themselves", s.name, goName)
	case s.hijacks[goName] != nil:
		return fmt.Errorf("dispatch: hijack %s.%s: it is hijacked already", s.name, goName)
	}
	if s.hijacks == nil {
		s.hijacks = make(map[string]func(*Stub))
	}
	s.hijacks[goName] = f
	return nil
}

// hijacked returns the Func that runs the calls of a method by f.
func hijacked(s *shape, f func(*Stub)) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		stub := &Stub{Context: ctx, call: call, shape: s}
		f(stub)
		return stub.finish()
	}
}

// Stub is one call of a hijacked method: its context, arguments and results.
// [tandem.FromContext] of a Stub returns the call. The function that was given to
// HijackProcess must not use it after it has returned.
type Stub struct {
	context.Context //nolint:containedctx // a stub is passed where a context is wanted

	call    *tandem.Call
	shape   *shape
	args    tandem.Results  // several arguments, once decoded
	read    int             // number of arguments read
	results []reflect.Value // results written so far
	err     error
}

// Read stores the next argument in what p points to. It returns an error if
// there is none left, if the arguments do not decode, or if p points to
// another type than the method declares; a sole argument may be read into
// any type that the codec can decode it into.
func (s *Stub) Read(p any) error {
	dst := reflect.ValueOf(p)
	switch {
	case dst.Kind() != reflect.Pointer || dst.IsNil():
		return fmt.Errorf("read argument %d of %s: want a pointer that is not nil, not %T", s.read+1, s.call.Method, p)
	case s.read == len(s.shape.args):
		return fmt.Errorf("read argument %d of %s: the method has %d", s.read+1, s.call.Method, s.read)
	}
	if err := s.readNext(p, dst.Elem()); err != nil {
		return err
	}
	s.read++
	return nil
}

func (s *Stub) readNext(p any, dst reflect.Value) error {
	if len(s.shape.args) == 1 {
		return s.decode(p)
	}
	if err := s.decodeAll(); err != nil {
		return err
	}
	ptr := reflect.ValueOf(s.args[s.read])
	switch dst.Type() {
	case ptr.Type():
		dst.Set(ptr)
	case ptr.Type().Elem():
		dst.Set(ptr.Elem())
	default:
		return fmt.Errorf("read argument %d of %s: it is %v, not %v", s.read+1, s.call.Method, ptr.Type().Elem(), dst.Type())
	}
	return nil
}

// decodeAll decodes several arguments, which are one message, once.
func (s *Stub) decodeAll() error {
	if s.args != nil {
		return nil
	}
	args := make(tandem.Results, len(s.shape.args))
	for i, t := range s.shape.args {
		args[i] = paramOf(t).alloc().Interface()
	}
	if err := s.decode(args); err != nil {
		return err
	}
	s.args = args
	return nil
}

// decode fails like an ordinary call, but not as not executed: the method is running.
func (s *Stub) decode(v any) error {
	if err := s.call.Body.Decode(v); err != nil {
		return describe(tandem.InvalidArgument, "arguments", s.call, err)
	}
	return nil
}

// Write sets the next result: a value of its type, or a pointer to one. The value
// that it points to must not change any more, since it is sent when the function has
// returned. A nil means the zero value, as does a result that is not written. More
// results than the method has are an error, unless they are nil.
func (s *Stub) Write(p any) error {
	n := len(s.results)
	if n == len(s.shape.results) {
		if p == nil {
			return nil
		}
		return fmt.Errorf("write result %d of %s: the method has %d", n+1, s.call.Method, n)
	}
	v, ok := convert(p, s.shape.results[n])
	if !ok {
		return fmt.Errorf("write result %d of %s: it is %v, not %T", n+1, s.call.Method, s.shape.results[n], p)
	}
	s.results = append(s.results, v)
	return nil
}

// convert returns p as a value of type t; it may follow or add one pointer.
func convert(p any, t reflect.Type) (v reflect.Value, ok bool) {
	if p == nil {
		return reflect.Zero(t), true
	}
	v = reflect.ValueOf(p)
	switch from := v.Type(); {
	case from.AssignableTo(t):
		return v, true
	case from.Kind() == reflect.Pointer && from.Elem().AssignableTo(t):
		if v.IsNil() {
			return reflect.Zero(t), true
		}
		return copyOf(v.Elem(), t), true
	case t.Kind() == reflect.Pointer && from.AssignableTo(t.Elem()):
		return copyOf(v, t.Elem()).Addr(), true
	}
	return v, false
}

// copyOf returns a variable of type t that v was assigned to.
func copyOf(v reflect.Value, t reflect.Type) reflect.Value {
	c := reflect.New(t).Elem()
	c.Set(v)
	return c
}

// WriteErr sets the method's error. If it is not nil, no results are sent. The last
// call counts; without one the method succeeds.
func (s *Stub) WriteErr(err error) error {
	s.err = err
	return nil
}

// finish sends the results, or returns the error.
func (s *Stub) finish() error {
	if s.err != nil {
		return methodError(s.err)
	}
	for i := len(s.results); i < len(s.shape.results); i++ {
		s.results = append(s.results, reflect.Zero(s.shape.results[i]))
	}
	return badResults(s.call, s.call.Body.Encode(message(s.results)))
}
