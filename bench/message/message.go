// Package message has the message that every system of the bench sends: the message of the
// seeds' benchmark, its values, what a server does to it and what a client checks. All
// systems encode it with the same generated code, so that frameworks are compared and not
// their codecs.
package message

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-vtproto_out=. --go-vtproto_opt=paths=source_relative,features=marshal+unmarshal+size message.proto

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Size is the encoded size of a message from New in bytes, as the seeds give it.
const Size = 581

// What a server writes into the first two fields.
const (
	AnswerText   = "OK"
	AnswerNumber = 100
)

// The seeds assign one value per type by reflection and print only the size
// that results. These values give exactly that size: a string of 54 bytes, an
// integer whose varint takes three, and true. The repeated field stays empty.
const (
	fillText   = "the quick brown fox jumps over one lazy dog by a river"
	fillNumber = 100000
)

// padding is how many bytes longer messages are than Size.
var padding int

// SetSize makes messages from every later New of about this size, in bytes, instead of Size. Call it
// before the first.
func SetSize(bytes int) { padding = max(0, bytes-Size) }

// New returns a message with every singular field set.
func New() *BenchmarkMessage {
	m := new(BenchmarkMessage)
	fields := reflect.ValueOf(m).Elem()
	for i := range fields.NumField() {
		if fields.Type().Field(i).IsExported() {
			fill(fields.Field(i))
		}
	}
	if padding > 0 {
		m.Field9 = new(strings.Repeat("x", padding) + fillText)
	}
	return m
}

func fill(field reflect.Value) {
	switch field.Interface().(type) {
	case *string:
		field.Set(reflect.ValueOf(new(fillText)))
	case *int32:
		field.Set(reflect.ValueOf(new(int32(fillNumber))))
	case *int64:
		field.Set(reflect.ValueOf(new(int64(fillNumber))))
	case *bool:
		field.Set(reflect.ValueOf(new(true)))
	}
}

// work is how long Answer keeps a processor busy.
var work time.Duration

// SetWork makes every later Answer keep its processor busy for d, as a handler with work to
// do. Call it before serving.
func SetWork(d time.Duration) { work = d }

// Answer is the server's handler: it turns a decoded request into its response, in place,
// and keeps its processor busy as SetWork says. It does not sleep: a sleep of microseconds
// takes many times as long, and would measure the runtime's timers.
func Answer(m *BenchmarkMessage) {
	if work > 0 {
		for began := time.Now(); time.Since(began) < work; {
		}
	}
	*m.Field1 = AnswerText
	*m.Field2 = AnswerNumber
}

// Check checks a response at the client: it fails unless the server has decoded, changed
// and encoded the message.
func Check(m *BenchmarkMessage) error {
	if m.GetField1() == AnswerText && m.GetField2() == AnswerNumber {
		return nil
	}
	return fmt.Errorf("message: answer holds field1 %q and field2 %d, want %q and %d",
		m.GetField1(), m.GetField2(), AnswerText, AnswerNumber)
}

// AppendTo appends the encoded message to b: MarshalVT without its allocation.
func AppendTo(b []byte, m *BenchmarkMessage) ([]byte, error) {
	start, size := len(b), m.SizeVT()
	b = slices.Grow(b, size)[:start+size]
	_, err := m.MarshalToSizedBufferVT(b[start:])
	return b, err
}

// Encode is AppendTo for codecs that take a value of any type; v must be a
// *BenchmarkMessage.
func Encode(b []byte, v any) ([]byte, error) {
	m, ok := v.(*BenchmarkMessage)
	if !ok {
		return nil, fmt.Errorf("message: %T is not the bench's message", v)
	}
	return AppendTo(b, m)
}

// Decode decodes b into v, which must be a *BenchmarkMessage. It does not retain b.
func Decode(b []byte, v any) error {
	m, ok := v.(*BenchmarkMessage)
	if !ok {
		return fmt.Errorf("message: %T is not the bench's message", v)
	}
	return m.UnmarshalVT(b)
}
