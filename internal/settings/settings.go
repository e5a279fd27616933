// Package settings makes the lists of settings that servers and clients show. For tandem's own
// packages only.
package settings

import (
	"fmt"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
)

// Where a setting comes from.
const (
	Default = "default"
	Option  = "option"
)

// Given holds the names of the options that were given. The zero value is empty.
type Given []string

// Add adds a name.
func (g *Given) Add(name string) {
	if !slices.Contains(*g, name) {
		*g = append(slices.Clip(*g), name)
	}
}

// From returns where the setting of that name comes from.
func (g *Given) From(name string) string {
	if slices.Contains(*g, name) {
		return Option
	}
	return Default
}

// List is a list of settings that grows.
type List struct {
	Given Given
	All   []tandem.Setting
}

// Add adds a setting of the options.
func (l *List) Add(name string, value any) { l.AddFrom(name, value, l.Given.From(name)) }

// AddFrom adds a setting of another origin.
func (l *List) AddFrom(name string, value any, from string) {
	l.All = append(l.All, tandem.Setting{Name: name, Value: Text(value), From: from})
}

// Text returns a value as text. Of a struct it shows the fields that are not zero.
func Text(value any) string {
	v := reflect.ValueOf(value)
	if _, ok := value.(fmt.Stringer); ok || v.Kind() != reflect.Struct {
		return fmt.Sprint(value)
	}
	var fields []string
	for f, x := range v.Fields() {
		if f.IsExported() && !x.IsZero() {
			fields = append(fields, f.Name+" "+Text(x.Interface()))
		}
	}
	return OrNone(strings.Join(fields, ", "))
}

// Switch returns "on" or "off".
func Switch(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// OrNone returns the text, or "none" if there is none.
func OrNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// Bound returns a bound, or "none" if it is zero.
func Bound[T comparable](v T) string {
	var zero T
	if v == zero {
		return "none"
	}
	return fmt.Sprint(v)
}

// Names returns the sorted names of the values.
func Names[T any](list []T, name func(T) string) string {
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = name(v)
	}
	slices.Sort(names)
	return OrNone(strings.Join(names, ", "))
}

// Types returns the types of the values, in their order.
func Types[T any](list []T) string {
	types := make([]string, len(list))
	for i, v := range list {
		types[i] = fmt.Sprintf("%T", v)
	}
	return OrNone(strings.Join(types, ", "))
}

// Functions returns the names of functions, in their order: their types say nothing.
func Functions[T any](list []T) string {
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = "a function"
		if v := reflect.ValueOf(f); v.Kind() == reflect.Func && !v.IsNil() {
			names[i] = path.Base(runtime.FuncForPC(v.Pointer()).Name())
		}
	}
	return OrNone(strings.Join(names, ", "))
}
