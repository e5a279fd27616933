// Package before is a service and its caller with Kitex, with gRPC's protocol. The code that
// kitex generates from a .proto file is written by hand here, and the messages are well-known
// types of Protocol Buffers.
package before

import (
	"context"
	"net"

	"github.com/cloudwego/kitex/client"
	"github.com/cloudwego/kitex/pkg/klog"
	"github.com/cloudwego/kitex/pkg/remote/trans/nphttp2/codes"
	"github.com/cloudwego/kitex/pkg/remote/trans/nphttp2/status"
	"github.com/cloudwego/kitex/pkg/serviceinfo"
	"github.com/cloudwego/kitex/pkg/streaming"
	"github.com/cloudwego/kitex/server"
	"github.com/cloudwego/kitex/transport"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Greeter greets.
type Greeter struct{}

// Hello greets a name.
func (Greeter) Hello(_ context.Context, name *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
	if name.GetValue() == "" {
		return nil, status.Err(codes.InvalidArgument, "nobody to greet")
	}
	return wrapperspb.String("Hello, " + name.GetValue()), nil
}

// message is an argument or a result, as in kitex's generated code.
type message struct{ value *wrapperspb.StringValue }

func (m *message) Marshal([]byte) ([]byte, error) { return proto.Marshal(m.value) }

func (m *message) Unmarshal(b []byte) error {
	m.value = new(wrapperspb.StringValue)
	return proto.Unmarshal(b, m.value)
}

func service() *serviceinfo.ServiceInfo {
	fresh := func() any { return new(message) }
	hello := func(ctx context.Context, handler, arg, _ any) error {
		stream := arg.(*streaming.Args).Stream // with one message, as gRPC sends a unary call
		var name message
		if err := stream.RecvMsg(&name); err != nil {
			return err
		}
		greeting, err := handler.(*Greeter).Hello(ctx, name.value)
		if err != nil {
			return err
		}
		return stream.SendMsg(&message{greeting})
	}
	return &serviceinfo.ServiceInfo{
		ServiceName: "Greeter", PayloadCodec: serviceinfo.Protobuf, HandlerType: (*any)(nil),
		Methods: map[string]serviceinfo.MethodInfo{
			"Hello": serviceinfo.NewMethodInfo(hello, fresh, fresh, false, serviceinfo.WithStreamingMode(serviceinfo.StreamingUnary)),
		},
		Extra: map[string]any{"PackageName": "demo"},
	}
}

// Serve serves until stop is closed.
func Serve(ln net.Listener, stop <-chan struct{}) error {
	klog.SetLevel(klog.LevelFatal)
	srv := server.NewServer(server.WithListener(ln), server.WithExitSignal(func() <-chan error {
		exit := make(chan error, 1)
		go func() {
			<-stop
			exit <- nil
		}()
		return exit
	}))
	if err := srv.RegisterService(service(), new(Greeter)); err != nil {
		return err
	}
	return srv.Run()
}

// Hello calls the server at an address.
func Hello(address, name string) (string, error) {
	klog.SetLevel(klog.LevelFatal)
	c, err := client.NewClient(service(), client.WithDestService("Greeter"), client.WithHostPorts(address), client.WithTransportProtocol(transport.GRPC))
	if err != nil {
		return "", err
	}
	var result message
	err = c.Call(context.Background(), "Hello", &message{wrapperspb.String(name)}, &result)
	return result.value.GetValue(), err
}
