package dispatch

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

var (
	errNilReceiver = errors.New("dispatch: the service is nil")
	errNotNetRPC   = errors.New("it does not have net/rpc's shape: (args T, reply *R) error")
	errNoError     = errors.New("its last result is not an error; name it with ForMethod to register it anyway")
)

// service is a receiver with its methods that can be served, by their names in Go.
type service struct {
	name    string
	value   reflect.Value
	shapes  map[string]*shape
	refused map[string]error       // why other methods can't be served
	hidden  map[string]bool        // other methods that WithHidden leaves out
	hijacks map[string]func(*Stub) // functions that run methods instead
}

// newService returns rcvr as a service, set up if it embeds [Hijacker].
func newService(name string, rcvr any, set *settings) (*service, error) {
	if rcvr == nil {
		return nil, errNilReceiver
	}
	v := reflect.ValueOf(rcvr)
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return nil, fmt.Errorf("dispatch: service %q is a nil %v", name, v.Type())
	}
	s := findMethods(name, v, set)
	for goName := range set.methods {
		if s.shapes[goName] == nil && !s.hidden[goName] {
			return nil, fmt.Errorf("dispatch: service %q of %v has no method %s to serve: %w", name, v.Type(), goName, s.why(goName))
		}
	}
	if len(s.shapes) == 0 {
		return nil, s.unsuitable(set)
	}
	if !set.lenient && !set.netrpc {
		if err := s.complete(); err != nil {
			return nil, err
		}
	}
	return s, s.setUp(rcvr)
}

// findMethods reads the shapes of the methods in v's method set.
func findMethods(name string, v reflect.Value, set *settings) *service {
	s := &service{name: name, value: v, shapes: make(map[string]*shape), refused: make(map[string]error), hidden: make(map[string]bool)}
	for method, fn := range v.Methods() {
		if isHook(v.Type(), method.Name) {
			continue
		}
		shape, err := shapeOf(fn.Type())
		if err == nil {
			_, named := set.methods[method.Name]
			err = shape.allowed(set.netrpc, named)
		}
		if err != nil && set.of(method.Name).hidden {
			s.hidden[method.Name] = true
			continue
		}
		if err != nil {
			s.refused[method.Name] = err
			continue
		}
		s.shapes[method.Name] = shape
	}
	return s
}

// allowed returns an error if a method of the shape is not served.
func (s *shape) allowed(netrpc, named bool) error {
	if netrpc && !s.reply {
		return errNotNetRPC
	}
	if !s.fails && !named {
		return errNoError
	}
	return nil
}

// why returns why a method of that name is not served.
func (s *service) why(goName string) error {
	if err := s.refused[goName]; err != nil {
		return err
	}
	return errors.New("no such exported method")
}

// complete returns an error that lists the methods that can't be served.
func (s *service) complete() error {
	if err := s.forGRPC(); err != nil || len(s.refused) == 0 {
		return err
	}
	return fmt.Errorf("dispatch: service %q of %v has methods that can't be served: %s: give SkipUnsuitable() to leave them out, "+
		"or hide each with ForMethod(name, MethodHidden())", s.name, s.value.Type(), s.reasons())
}

// reasons lists the methods that can't be served.
func (s *service) reasons() string {
	var list []string
	for _, goName := range slices.Sorted(maps.Keys(s.refused)) {
		list = append(list, fmt.Sprintf("%s: %v", goName, s.refused[goName]))
	}
	return strings.Join(list, "; ")
}

// unsuitable returns the error of a service without a method that can be served.
func (s *service) unsuitable(set *settings) error {
	var text strings.Builder
	fmt.Fprintf(&text, "dispatch: type %v has no exported methods of suitable type", s.value.Type())
	ptr := reflect.New(s.value.Type())
	if len(findMethods(s.name, ptr, set).shapes) > 0 {
		text.WriteString(" (hint: pass a pointer to value of that type)")
	}
	if len(s.refused) > 0 {
		text.WriteString("; " + s.reasons())
	}
	return errors.New(text.String())
}

// methods returns the methods of the service, with the settings applied.
func (s *service) methods(set *settings) []Method {
	var methods []Method
	for _, goName := range slices.Sorted(maps.Keys(s.shapes)) {
		if one := set.of(goName); !one.hidden {
			methods = append(methods, s.method(goName, one))
		}
	}
	return methods
}

// method returns one method of the service.
func (s *service) method(goName string, set settings) Method {
	m := set.method
	m.Name = joinName(s.name, goName)
	if set.name != "" {
		m.Name = joinName(s.name, set.name)
	}
	m.Origin = fmt.Sprintf("(%v).%s", s.value.Type(), goName)
	shape := s.shapes[goName]
	shape.describe(&m)
	if f := s.hijacks[goName]; f != nil {
		m.Func = hijacked(shape, f)
	} else {
		m.Func, m.reusing = newMethodFuncs(s.value, goName, shape)
	}
	return m
}
