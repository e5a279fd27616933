// Package after is the service and its caller with tandem. The consumers in Java stay as
// they are.
package after

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/triple"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// Greeter has the methods of the interface in Java.
type Greeter struct{}

// Hello returns a greeting for a name.
func (Greeter) Hello(name string) (string, error) {
	if name == "" {
		return "", tandem.Errorf(tandem.InvalidArgument, "nobody to greet")
	}
	return "Hello, " + name, nil
}

// HelloAll returns a greeting for each name.
func (g Greeter) HelloAll(names []string) (map[string]string, error) {
	all := map[string]string{}
	for _, name := range names {
		greeting, err := g.Hello(name)
		if err != nil {
			return nil, err
		}
		all[name] = greeting
	}
	return all, nil
}

// Serve serves until the listener is closed. The service has the full name of the interface,
// which consumers use.
func Serve(ln net.Listener) error {
	srv := server.New(server.WithProtocols(web.New(triple.Interface("demo.Greeter"))))
	if err := srv.RegisterName("demo.Greeter", Greeter{}); err != nil {
		return err
	}
	return errors.Join(srv.ServeListener(ln), srv.Close())
}

// Hello calls the server at an address, without Java.
func Hello(address, name string) (string, error) {
	c, err := client.Dial("tcp://" + address)
	if err != nil {
		return "", err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var greeting string
	err = c.Call(ctx, "demo.Greeter.Hello", name, &greeting)
	return greeting, err
}
