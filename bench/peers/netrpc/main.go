// Netrpc is the peer of Go's net/rpc with a codec for generated messages, so that the
// framework is compared and not gob. The option gob selects net/rpc's own codec.
package main

import (
	"crypto/tls"
	"net"
	"net/rpc"

	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
)

// Hello is the seeds' service.
type Hello struct{}

// Say answers args.
//
//nolint:unparam // net/rpc wants the error
func (Hello) Say(args, reply *message.BenchmarkMessage) error {
	message.Answer(args)
	message.Share(reply, args)
	return nil
}

// caller is a net/rpc client. It is safe for concurrent use.
type caller struct{ *rpc.Client }

func (c caller) Call(req, reply *message.BenchmarkMessage) error {
	return c.Client.Call("Hello.Say", req, reply)
}

func main() {
	load.Main(load.System{Serve: serve, Dial: load.DialFor(dial), Options: []string{"tls", "gob"}})
}

func serve(ln net.Listener) error {
	srv := rpc.NewServer()
	if err := srv.Register(Hello{}); err != nil {
		return err
	}
	if load.Named().Has("tls") {
		config, _, err := load.TLS()
		if err != nil {
			return err
		}
		ln = tls.NewListener(ln, config)
	}
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		if load.Named().Has("gob") {
			go srv.ServeConn(conn)
		} else {
			go srv.ServeCodec(newFraming(conn))
		}
	}
}

func dial(addr string) (caller, error) {
	conn, err := connect(addr)
	if err != nil {
		return caller{}, err
	}
	if load.Named().Has("gob") {
		return caller{rpc.NewClient(conn)}, nil
	}
	return caller{rpc.NewClientWithCodec(newFraming(conn))}, nil
}

// connect opens a connection, with TLS if the option is set.
func connect(addr string) (net.Conn, error) {
	if !load.Named().Has("tls") {
		return net.Dial("tcp", addr)
	}
	_, config, err := load.TLS()
	if err != nil {
		return nil, err
	}
	return tls.Dial("tcp", addr, config)
}
