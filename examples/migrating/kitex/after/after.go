// Package after is the service and its caller with tandem. The method is the same, with
// tandem's errors; the server also serves Kitex's clients.
package after

import (
	"context"
	"errors"
	"net"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// Greeter greets.
type Greeter struct{}

// Hello greets a name.
func (Greeter) Hello(_ context.Context, name *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
	if name.GetValue() == "" {
		return nil, tandem.Errorf(tandem.InvalidArgument, "nobody to greet")
	}
	return wrapperspb.String("Hello, " + name.GetValue()), nil
}

// Serve serves until stop is closed. The service has its full name, which gRPC's clients use.
func Serve(ln net.Listener, stop <-chan struct{}) error {
	srv := server.New(server.WithCodecs(protobuf.Codec()), server.WithProtocols(web.New()))
	if err := srv.RegisterName("demo.Greeter", Greeter{}); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeListener(ln) }()
	<-stop
	return errors.Join(srv.Close(), <-ended)
}

// Hello calls the server at an address.
func Hello(address, name string) (string, error) {
	c, err := client.Dial("tcp://"+address, client.WithCodec(protobuf.Codec()))
	if err != nil {
		return "", err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	result, err := client.Invoke[wrapperspb.StringValue](ctx, c, "demo.Greeter.Hello", wrapperspb.String(name))
	return result.GetValue(), err
}
