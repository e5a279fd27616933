package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem"
)

// valueBody is a body without a codec: it passes Go values on. The types of the
// received and the sent value must be the same.
type valueBody struct {
	in, out any
	stream  tandem.MessageStream
}

func (b *valueBody) Stream() tandem.MessageStream { return b.stream }

func (b *valueBody) Encode(v any) error {
	b.out = v
	return nil
}

func (b *valueBody) Decode(v any) error {
	ptrs, several := v.(tandem.Results)
	if !several {
		return assign(v, b.in)
	}
	args, _ := b.in.(tandem.Args)
	if len(args) != len(ptrs) {
		return fmt.Errorf("%d values for %d", len(args), len(ptrs))
	}
	for i := range ptrs {
		if err := assign(ptrs[i], args[i]); err != nil {
			return err
		}
	}
	return nil
}

func assign(ptr, v any) error {
	dst, src := reflect.ValueOf(ptr).Elem(), reflect.Indirect(reflect.ValueOf(v))
	if !src.IsValid() || src.Type() != dst.Type() {
		return fmt.Errorf("%T for %T", v, ptr)
	}
	dst.Set(src)
	return nil
}

// jsonBody is a body in JSON, several values an array.
type jsonBody struct {
	in, out string
	stream  tandem.MessageStream
}

func (b *jsonBody) Stream() tandem.MessageStream { return b.stream }
func (b *jsonBody) Decode(v any) error           { return decodeJSON(b.in, v) }

func (b *jsonBody) Encode(v any) error {
	out, err := json.Marshal(v)
	b.out = string(out)
	return err
}

func decodeJSON(in string, v any) error {
	ptrs, several := v.(tandem.Results)
	if !several {
		return json.Unmarshal([]byte(in), v)
	}
	var elems []json.RawMessage
	if err := json.Unmarshal([]byte(in), &elems); err != nil {
		return err
	}
	if len(elems) != len(ptrs) {
		return fmt.Errorf("%d values for %d", len(elems), len(ptrs))
	}
	for i, e := range elems {
		if err := json.Unmarshal(e, ptrs[i]); err != nil {
			return err
		}
	}
	return nil
}

// jsonStream is a stream whose messages are lines of JSON.
type jsonStream struct {
	tandem.MessageStream // the rest is not used
	in                   []string
	out                  bytes.Buffer
}

func (s *jsonStream) RecvMsg(v any) error {
	if len(s.in) == 0 {
		return io.EOF
	}
	line := s.in[0]
	s.in = s.in[1:]
	return decodeJSON(line, v)
}

func (s *jsonStream) SendMsg(v any) error { return json.NewEncoder(&s.out).Encode(v) }

// call makes a unary call with JSON in and out.
func call(t *Table, name, in string) (string, error) {
	m := t.Lookup(name)
	if m == nil {
		return "", fmt.Errorf("no method %q", name)
	}
	b := &jsonBody{in: in}
	err := m.Func(context.Background(), &tandem.Call{Method: name, Body: b})
	return b.out, err
}

// callStream makes a streaming call with lines of JSON in and out.
func callStream(t *Table, name string, in ...string) (string, error) {
	m := t.Lookup(name)
	if m == nil {
		return "", fmt.Errorf("no method %q", name)
	}
	s := &jsonStream{in: in}
	c := &tandem.Call{Method: name, Kind: tandem.Streaming, Body: &jsonBody{stream: s}}
	err := m.Func(context.Background(), c)
	return s.out.String(), err
}

// must fails the test if err is not nil.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantCall makes a call that succeeds and compares its result.
func wantCall(t *testing.T, table *Table, name, in, want string) {
	t.Helper()
	if got, err := call(table, name, in); err != nil || got != want {
		t.Errorf("%s(%s) = %s, %v; want %s", name, in, got, err, want)
	}
}

// wantError fails the test unless err contains the texts.
func wantError(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q does not contain %q", err, text)
		}
	}
}
