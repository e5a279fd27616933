package admin

import (
	"reflect"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tandem-rpc/tandem/internal/jsonschema"
	"github.com/tandem-rpc/tandem/server"
)

// files is a set of files in which each follows those that it imports.
type files struct {
	added map[string]bool // by path
	list  []*descriptorpb.FileDescriptorProto
}

// descriptorsOf returns an encoded FileDescriptorSet of what methods have of Protocol Buffers: the
// definitions of their services, where there are, and their messages. It is nil for none.
func descriptorsOf(methods []*server.Method) ([]byte, error) {
	f := files{added: map[string]bool{}}
	for _, m := range methods {
		if d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(m.Name)); err == nil {
			f.add(d.ParentFile())
		}
		for _, types := range [][]reflect.Type{m.Args, m.Results, {m.In, m.Out}} {
			for _, t := range types {
				if t != nil && jsonschema.Message(t) != nil {
					f.add(jsonschema.Message(t).ParentFile())
				}
			}
		}
	}
	if f.list == nil {
		return nil, nil
	}
	return proto.Marshal(&descriptorpb.FileDescriptorSet{File: f.list})
}

func (f *files) add(file protoreflect.FileDescriptor) {
	if f.added[file.Path()] || file.IsPlaceholder() {
		return
	}
	f.added[file.Path()] = true
	for i := range file.Imports().Len() {
		f.add(file.Imports().Get(i).FileDescriptor)
	}
	f.list = append(f.list, protodesc.ToFileDescriptorProto(file))
}
