package codec

import (
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
)

// recursion knows which types can contain themselves. Only their messages can
// nest deeper than the types do, and need a look before they are decoded.
type recursion struct{ last atomic.Pointer[verdict] }

var verdicts sync.Map // by reflect.Type, *verdict; the process's, as types are

type verdict struct {
	t         reflect.Type
	recursive bool
}

// possible reports whether a value of v's type can contain another of its own,
// or of a type that does.
func (r *recursion) possible(v any) bool {
	t := reflect.TypeOf(v)
	if last := r.last.Load(); last != nil && last.t == t {
		return last.recursive
	}
	found, ok := verdicts.Load(t)
	if !ok {
		found, _ = verdicts.LoadOrStore(t, &verdict{t, containsItself(t, map[reflect.Type]bool{})})
	}
	last := found.(*verdict) //nolint:forcetypeassert // nothing else is stored
	r.last.Store(last)
	return last.recursive
}

// containsItself follows all fields but those of protobuf's own runtime, which
// hold no messages. What an interface (a oneof) may hold can't be seen; it
// counts as anything.
func containsItself(t reflect.Type, path map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return containsItself(t.Elem(), path)
	case reflect.Interface:
		return true
	case reflect.Struct:
	default:
		return false
	}
	switch {
	case path[t]:
		return true
	case strings.HasPrefix(t.PkgPath(), "google.golang.org/protobuf/internal/"):
		return false
	}
	path[t] = true
	defer delete(path, t)
	for field := range t.Fields() {
		if containsItself(field.Type, path) {
			return true
		}
	}
	return false
}
