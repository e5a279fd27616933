package jsonschema

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

type list struct {
	Next  *list `json:"next"`
	Value any   `json:"value"`
}

func TestSeveral(t *testing.T) {
	s := New("#/x/")
	s.Define("jsonschema.list", Object{}) // the name is taken
	for _, c := range []struct {
		types []reflect.Type
		want  string
	}{
		{nil, `{}`},
		{[]reflect.Type{}, `{"maxProperties":0,"type":["object","null"]}`},
		{[]reflect.Type{reflect.TypeFor[**list]()}, `{"$ref":"#/x/jsonschema.list_2"}`},
		{[]reflect.Type{reflect.TypeFor[bool](), reflect.TypeFor[string]()}, `{"maxItems":2,"minItems":2,"prefixItems":[{"type":["boolean","null"]},{"type":["string","null"]}],"type":"array"}`},
		{[]reflect.Type{reflect.TypeFor[structpb.Struct]()}, `{"type":["object"]}`},
	} {
		if got, err := json.Marshal(s.Several(c.types)); err != nil || string(got) != c.want {
			t.Errorf("%v: %v, %s\nwant %s", c.types, err, got, c.want)
		}
	}
	if got, err := json.Marshal(s.Defined()["jsonschema.list_2"]); err != nil || string(got) != `{"properties":{"next":{"$ref":"#/x/jsonschema.list_2"},"value":{}},"type":["object","null"]}` {
		t.Errorf("%v, %s", err, got)
	}
}

func TestMessage(t *testing.T) {
	for _, is := range []reflect.Type{reflect.TypeFor[timestamppb.Timestamp](), reflect.TypeFor[*timestamppb.Timestamp]()} {
		if m := Message(is); m == nil || m.FullName() != "google.protobuf.Timestamp" {
			t.Errorf("%v: %v", is, m)
		}
	}
	if m := Message(reflect.TypeFor[time.Time]()); m != nil {
		t.Errorf("a time is the message %v", m)
	}
}
