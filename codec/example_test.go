package codec_test

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/codec"
)

type person struct {
	Name string
	Age  int
}

func ExampleAppend() {
	c := codec.JSON()
	message, err := codec.Append(c, []byte("header "), &person{"Ada", 36})
	fmt.Printf("%s %v\n", message, err)

	_, err = codec.Append(c, nil, make(chan int))
	fmt.Println(err)
	// Output:
	// header {"Name":"Ada","Age":36} <nil>
	// codec json: encoding chan int: json: unsupported type: chan int
}

func ExampleDecode() {
	c := codec.Gob()
	message, err := codec.Append(c, nil, &person{"Ada", 36})
	if err != nil {
		fmt.Println(err)
		return
	}
	var p person
	err = codec.Decode(c, message, &p)
	fmt.Println(p, err)

	err = codec.Decode(c, message[:10], &p)
	fmt.Println(err)
	// Output:
	// {Ada 36} <nil>
	// codec gob: decoding into *codec_test.person: gob: a message claims 37 bytes where 9 are left
}

// Several arguments travel as one message.
func ExampleAppend_args() {
	c := codec.JSON()
	message, err := codec.Append(c, nil, tandem.Args{7, "seven", []int{7}})
	fmt.Printf("%q %v\n", message, err)

	var n int
	var s string
	err = codec.Decode(c, message, tandem.Args{&n, &s, nil}) // the last value is discarded
	fmt.Println(n, s, err)

	err = codec.Decode(c, message, tandem.Args{&n})
	fmt.Println(err)
	// Output:
	// "\x03\x017\a\"seven\"\x03[7]" <nil>
	// 7 seven <nil>
	// packed values: the message has 3, want 1
}

func ExampleRaw() {
	message, _ := codec.Append(codec.Raw(), nil, []byte("as it is"))
	var got []byte
	err := codec.Decode(codec.Raw(), message, &got)
	fmt.Printf("%s %v\n", got, err)
	// Output: as it is <nil>
}

// Gob messages carry the types of values in interfaces, if these are registered.
func ExampleGob() {
	c := codec.Gob()
	message, err := codec.Append(c, nil, map[string]any{"answer": 42})
	if err != nil {
		fmt.Println(err)
		return
	}
	var got map[string]any
	err = codec.Decode(c, message, &got)
	fmt.Println(got, err)
	// Output: map[answer:42] <nil>
}

// A raw message passes through unchanged, which a gateway needs.
func ExampleJSON() {
	c := codec.JSON()
	message, _ := codec.Append(c, nil, json.RawMessage(`{"as": "it is"}`))
	var got json.RawMessage
	err := codec.Decode(c, message, &got)
	fmt.Printf("%s %v\n", got, err)
	// Output: {"as": "it is"} <nil>
}

// word has the methods that gogo/protobuf generates.
type word struct{ s string }

func (w *word) Size() int                       { return len(w.s) }
func (w *word) MarshalTo(b []byte) (int, error) { return copy(b, w.s), nil }
func (w *word) Unmarshal(b []byte) error        { w.s = string(b); return nil }

// StrictJSON finds fields that are misspelled.
func ExampleStrictJSON() {
	var order struct{ Amount int }
	err := codec.Decode(codec.StrictJSON(), []byte(`{"Amuont":3}`), &order)
	if unknown, ok := errors.AsType[*codec.UnknownFieldError](err); ok {
		fmt.Println("there is no field", unknown.Field)
	}
	// Output: there is no field Amuont
}

func ExampleGenerated() {
	c := codec.Generated()
	message, _ := codec.Append(c, nil, &word{"hello"})
	var got word
	err := codec.Decode(c, message, &got)
	fmt.Println(got.s, err)
	// Output: hello <nil>
}
