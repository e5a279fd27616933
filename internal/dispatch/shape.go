package dispatch

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
)

var (
	contextType       = reflect.TypeFor[context.Context]()
	errorType         = reflect.TypeFor[error]()
	funcType          = reflect.TypeFor[tandem.Func]()
	messageStreamType = reflect.TypeFor[tandem.MessageStream]()
)

// shape says how to serve a function, by its signature. The package comment has the
// rules.
type shape struct {
	context bool           // a context is passed
	isFunc  bool           // it is a tandem.Func; nothing below is set
	stream  reflect.Type   // the Stream[In, Out], or nil
	args    []reflect.Type // as declared
	results []reflect.Type // as declared, without the error
	reply   bool           // net/rpc's shape: the last parameter is the result
	fails   bool           // the last result is an error
}

// shapeOf reads the signature of a function, or of a method without receiver.
func shapeOf(fn reflect.Type) (*shape, error) {
	if fn.IsVariadic() {
		return nil, errors.New("it is variadic; let it take a slice")
	}
	if fn.ConvertibleTo(funcType) {
		return &shape{context: true, isFunc: true, fails: true}, nil
	}
	s := &shape{args: slices.Collect(fn.Ins()), results: slices.Collect(fn.Outs())}
	s.takeContext()
	s.takeStream()
	s.takeError()
	s.takeReply()
	return s, s.check()
}

func (s *shape) takeContext() {
	if len(s.args) > 0 && s.args[0] == contextType {
		s.context, s.args = true, s.args[1:]
	}
}

func (s *shape) takeStream() {
	if len(s.args) > 0 && isStream(s.args[0]) {
		s.stream, s.args = s.args[0].Elem(), s.args[1:]
	}
}

func (s *shape) takeError() {
	if n := len(s.results); n > 0 && s.results[n-1] == errorType {
		s.fails, s.results = true, s.results[:n-1]
	}
}

// takeReply recognises net/rpc's shape: exactly two parameters, the second a
// pointer, and error the sole result.
func (s *shape) takeReply() {
	if s.stream != nil || len(s.args) != 2 || len(s.results) != 0 || !s.fails {
		return
	}
	if s.args[1].Kind() == reflect.Pointer {
		s.reply, s.args, s.results = true, s.args[:1], s.args[1:]
	}
}

func (s *shape) check() error {
	for i, t := range s.args {
		if err := s.checkType(t, true); err != nil {
			return fmt.Errorf("argument %d: %w", i+1, err)
		}
	}
	for i, t := range s.results {
		if err := s.checkType(t, false); err != nil {
			return fmt.Errorf("result %d: %w", i+1, err)
		}
	}
	return nil
}

// checkType returns an error if values of type t can't be messages. For net/rpc's
// shape it requires no more than net/rpc does.
func (s *shape) checkType(t reflect.Type, argument bool) error {
	base := deref(t)
	switch {
	case !isExportedOrBuiltin(base):
		return fmt.Errorf("type %v is not exported", t)
	case s.reply:
		return nil
	case t == contextType || isStream(t):
		return fmt.Errorf("%v must come first: a context, then a stream, then arguments", t)
	case t == errorType:
		return errors.New("error must be the last result, and only that")
	case base.Kind() == reflect.Func || base.Kind() == reflect.Chan || base.Kind() == reflect.UnsafePointer:
		return fmt.Errorf("no codec carries a %v", t)
	case argument && base.Kind() == reflect.Interface && base.NumMethod() > 0:
		return fmt.Errorf("no codec can choose a type for the interface %v", t)
	}
	return nil
}

// isExportedOrBuiltin is net/rpc's test of a type, whose pointers are removed.
// A type without a name has no package.
func isExportedOrBuiltin(t reflect.Type) bool {
	return t.PkgPath() == "" || isExported(t.Name())
}

// isStream reports whether t is a *tandem.Stream of any messages.
func isStream(t reflect.Type) bool {
	if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		return false
	}
	s := t.Elem()
	return s.PkgPath() == messageStreamType.PkgPath() && strings.HasPrefix(s.Name(), "Stream[")
}

// streamTypes returns the types of a stream's messages, by its methods
// Recv() (*In, error) and Send(*Out) error.
func streamTypes(stream reflect.Type) (in, out reflect.Type) {
	p := reflect.PointerTo(stream)
	recv, _ := p.MethodByName("Recv")
	send, _ := p.MethodByName("Send")
	return recv.Type.Out(0).Elem(), send.Type.In(1).Elem()
}

// deref removes all pointers from t.
func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// derefAll removes all pointers from each type.
func derefAll(types []reflect.Type) []reflect.Type {
	bases := make([]reflect.Type, len(types))
	for i, t := range types {
		bases[i] = deref(t)
	}
	return bases
}

// describe sets the kind and the types of m, for listings.
func (s *shape) describe(m *Method) {
	if s.isFunc {
		return // only the function knows its types
	}
	m.Args, m.Results = derefAll(s.args), derefAll(s.results)
	if s.stream != nil {
		m.Kind = tandem.Streaming
		m.In, m.Out = streamTypes(s.stream)
	}
}
