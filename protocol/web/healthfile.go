package web

import (
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

// healthFiles returns the definition of gRPC's health checks, for reflection.
func healthFiles() *protoregistry.Files {
	const (
		request  = ".grpc.health.v1.HealthCheckRequest"
		response = ".grpc.health.v1.HealthCheckResponse"
	)
	values := []*descriptorpb.EnumValueDescriptorProto{}
	for i, name := range []string{"UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"} {
		values = append(values, &descriptorpb.EnumValueDescriptorProto{Name: new(name), Number: new(int32(i))})
	}
	optional := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()
	file := &descriptorpb.FileDescriptorProto{
		Name: new("grpc/health/v1/health.proto"), Package: new("grpc.health.v1"), Syntax: new("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{
			{Name: new("HealthCheckRequest"), Field: []*descriptorpb.FieldDescriptorProto{{
				Name: new("service"), JsonName: new("service"), Number: new(int32(1)), Label: optional,
				Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(),
			}}},
			{Name: new("HealthCheckResponse"), Field: []*descriptorpb.FieldDescriptorProto{{
				Name: new("status"), JsonName: new("status"), Number: new(int32(1)), Label: optional,
				Type: descriptorpb.FieldDescriptorProto_TYPE_ENUM.Enum(), TypeName: new(response + ".ServingStatus"),
			}}, EnumType: []*descriptorpb.EnumDescriptorProto{{Name: new("ServingStatus"), Value: values}}},
		},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Health"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: new("Check"), InputType: new(request), OutputType: new(response)},
			{Name: new("Watch"), InputType: new(request), OutputType: new(response), ServerStreaming: new(true)},
		}}},
	}
	files := new(protoregistry.Files)
	if d, err := protodesc.NewFile(file, files); err == nil { // it is constant: tests would fail
		_ = files.RegisterFile(d)
	}
	return files
}
