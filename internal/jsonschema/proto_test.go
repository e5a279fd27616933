package jsonschema

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// mapOf returns a field that is a map with keys of a type.
func mapOf(t *testing.T, key descriptorpb.FieldDescriptorProto_Type) protoreflect.FieldDescriptor {
	t.Helper()
	one, many := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(), descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	text := descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum()
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new("maps.proto"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{
			Name: new("M"),
			Field: []*descriptorpb.FieldDescriptorProto{{Name: new("by"), JsonName: new("by"), Number: new(int32(1)), Label: many,
				Type: descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), TypeName: new(".M.ByEntry")}},
			NestedType: []*descriptorpb.DescriptorProto{{
				Name: new("ByEntry"), Options: &descriptorpb.MessageOptions{MapEntry: new(true)},
				Field: []*descriptorpb.FieldDescriptorProto{
					{Name: new("key"), JsonName: new("key"), Number: new(int32(1)), Label: one, Type: key.Enum()},
					{Name: new("value"), JsonName: new("value"), Number: new(int32(2)), Label: one, Type: text},
				},
			}},
		}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().Get(0).Fields().Get(0)
}

// Keys of a map that are numbers or truth values have a pattern in the schema: others are refused.
func TestKeysOfMaps(t *testing.T) {
	for key, want := range map[descriptorpb.FieldDescriptorProto_Type]string{
		descriptorpb.FieldDescriptorProto_TYPE_STRING:   ``,
		descriptorpb.FieldDescriptorProto_TYPE_BOOL:     `"propertyNames":{"pattern":"^(true|false)$"},`,
		descriptorpb.FieldDescriptorProto_TYPE_SINT32:   `"propertyNames":{"pattern":"^-?[0-9]{1,10}$"},`,
		descriptorpb.FieldDescriptorProto_TYPE_UINT32:   `"propertyNames":{"pattern":"^[0-9]{1,10}$"},`,
		descriptorpb.FieldDescriptorProto_TYPE_SFIXED64: `"propertyNames":{"pattern":"^-?[0-9]{1,19}$"},`,
		descriptorpb.FieldDescriptorProto_TYPE_FIXED64:  `"propertyNames":{"pattern":"^[0-9]{1,20}$"},`,
	} {
		got, err := json.Marshal(New("#/x/").Field(mapOf(t, key)))
		if err != nil || string(got) != `{"additionalProperties":{"type":["string"]},`+want+`"type":["object"]}` {
			t.Errorf("%v: %s, %v", key, got, err)
		}
	}
}
