package codec

import (
	"reflect"
	"strings"
	"sync"
)

// recursive says by reflect.Type whether a type can contain itself.
var recursive sync.Map

// mayNest reports whether v's type can contain itself, or a type that can. Only messages
// of such types can nest deeper than the types do, and must be checked before they are
// decoded.
func mayNest(v any) bool {
	t := reflect.TypeOf(v)
	known, ok := recursive.Load(t)
	if !ok {
		known, _ = recursive.LoadOrStore(t, containsItself(t, map[reflect.Type]bool{}))
	}
	return known.(bool) //nolint:forcetypeassert // nothing else is stored
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
