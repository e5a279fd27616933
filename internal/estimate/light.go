package estimate

import (
	"reflect"
	"strings"
	"sync"
)

// Bounds of messages that need no estimate, in bytes.
const (
	lightMessage = 4 << 10
	lightValue   = 32 << 10 // when it is decoded
)

var lights sync.Map //nolint:gochecknoglobals // int by reflect.Type: there are as many as types in the program

// Light returns the length in bytes up to which a message takes little memory when it is decoded
// into a value of type rt, whatever the message and the codec: at most lightValue bytes. It
// returns at least 1.
func Light(rt reflect.Type) int {
	if rt == nil {
		return lightMessage
	}
	if rt.Kind() == reflect.Pointer { // a pointer to the value
		rt = rt.Elem()
	}
	if n, ok := lights.Load(rt); ok {
		return n.(int) //nolint:forcetypeassert // nothing else is stored
	}
	n := int(min(lightMessage, max(1, lightValue/weight(rt, 1, map[reflect.Type]bool{}))))
	lights.Store(rt, n)
	return n
}

const (
	anyWeight = 128 // of a map with one entry, which takes three bytes of message
)

// weight returns how many bytes of memory one byte of a message takes at most, in a value of
// type rt that itself takes own bytes for each byte of message.
func weight(rt reflect.Type, own int64, seen map[reflect.Type]bool) int64 {
	for n := 0; rt.Kind() == reflect.Pointer && n < 100; n++ { // a type may point to itself
		rt = rt.Elem()
		own += max(8, size(rt))
	}
	if seen[rt] {
		return own
	}
	seen[rt] = true
	defer delete(seen, rt)
	switch rt.Kind() {
	case reflect.Slice:
		return max(own, weight(rt.Elem(), size(rt.Elem())*3/2, seen))
	case reflect.Array:
		return max(own, weight(rt.Elem(), 1, seen))
	case reflect.Map:
		first := mapFirst * (size(rt.Key()) + size(rt.Elem()) + 1) / 2 // a key and an element have two bytes
		return max(own+mapSize, weight(rt.Key(), first, seen), weight(rt.Elem(), first, seen))
	case reflect.Interface:
		return own + anyWeight
	case reflect.Struct:
		return max(own, heaviestField(rt, seen))
	}
	return own
}

func size(rt reflect.Type) int64 { return int64(rt.Size()) } //nolint:gosec // a type's size

// heaviestField returns the largest weight of the fields of rt. It leaves out fields that codecs
// do not see: those not exported, except in the opaque API of Protocol Buffers.
func heaviestField(rt reflect.Type, seen map[reflect.Type]bool) (most int64) {
	for f := range rt.Fields() {
		if f.IsExported() || f.Anonymous || strings.HasPrefix(f.Name, "xxx_hidden_") {
			most = max(most, weight(f.Type, 1, seen))
		}
	}
	return most
}
