// Thrift is the peer of Apache Thrift's Go library. Its service carries the
// message as binary (hello.thrift), encoded with the bench's generated code, so
// that the framework is compared and not its code generator.
//
// The binary protocol over framed over buffered transport is what thrift's Go
// tutorial sets up with -framed -buffered, buffer size included; without the
// buffer, a frame's length would be a write of its own. The server is thrift's
// TSimpleServer, a goroutine a connection. The check whether the client is
// still there is off: the library's README counts its two goroutines and a
// millisecond a call and tells how to do without.
//
// A client carries one call at a time, so there is nothing to share.
package main

//go:generate thrift --gen go:skip_remote -out . hello.thrift
//go:generate gofmt -w hello

import (
	"context"
	"net"

	"github.com/apache/thrift/lib/go/thrift"

	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
	"github.com/tandem-rpc/tandem/bench/peers/thrift/hello"
)

const bufferSize = 8192

func main() {
	load.Main(load.System{Serve: serve, Dial: load.DialFor(dial), Exclusive: true})
}

// transports and protocols are the same on both sides.
func transports() thrift.TTransportFactory {
	return thrift.NewTFramedTransportFactoryConf(thrift.NewTBufferedTransportFactory(bufferSize), nil)
}

func protocols() thrift.TProtocolFactory { return thrift.NewTBinaryProtocolFactoryConf(nil) }

func serve(ln net.Listener) error {
	thrift.ServerConnectivityCheckInterval = 0
	srv := thrift.NewTSimpleServer4(hello.NewHelloProcessor(service{}), listener{ln}, transports(), protocols())
	return srv.Serve()
}

// service is the seeds' service.
type service struct{}

func (service) Say(_ context.Context, b []byte) ([]byte, error) {
	m := new(message.BenchmarkMessage)
	if err := m.UnmarshalVT(b); err != nil {
		return nil, err
	}
	message.Answer(m)
	return m.MarshalVT()
}

// listener is a thrift.TServerTransport on an open listener.
type listener struct{ net.Listener }

func (l listener) Accept() (thrift.TTransport, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return thrift.NewTSocketFromConnConf(conn, nil), nil
}

func (listener) Listen() error      { return nil }
func (l listener) Interrupt() error { return l.Close() }

// caller is a thrift client. It is not safe for concurrent use.
type caller struct {
	*hello.HelloClient
	transport thrift.TTransport
	out       []byte // the request, encoded
}

func (c *caller) Call(req, reply *message.BenchmarkMessage) error {
	var err error
	if c.out, err = message.AppendTo(c.out[:0], req); err != nil {
		return err
	}
	in, err := c.Say(context.Background(), c.out)
	if err != nil {
		return err
	}
	return reply.UnmarshalVT(in)
}

func (c *caller) Close() error { return c.transport.Close() }

func dial(addr string) (*caller, error) {
	transport, err := transports().GetTransport(thrift.NewTSocketConf(addr, nil))
	if err != nil {
		return nil, err
	}
	if err := transport.Open(); err != nil {
		return nil, err
	}
	return &caller{HelloClient: hello.NewHelloClientFactory(transport, protocols()), transport: transport}, nil
}
