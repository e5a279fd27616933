package codecs

import (
	"context"
	"errors"
	"net"
	"net/rpc"
	"sync"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// methodName is what every server calls its method.
const methodName = "Hello.Say"

// pair is a client and its server in this process, with one connection of TCP
// between them.
type pair struct {
	// newCaller returns a caller with a message of its own. Its function makes
	// a whole call and checks the answer.
	newCaller func() func() error
	close     func() error
}

// tandemPair has all defaults but the codec.
func tandemPair[T any](k body[T]) (*pair, error) {
	srv := server.New(server.WithCodecs(k.codec))
	err := server.Handle(srv, methodName, func(_ context.Context, m *T) (*T, error) {
		k.answer(m)
		return m, nil
	})
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	var served sync.WaitGroup
	served.Go(func() { _ = srv.ServeListener(ln) }) // ends with Close
	c, err := client.Dial("tcp://"+ln.Addr().String(), client.WithCodec(k.codec))
	if err != nil {
		return nil, errors.Join(err, srv.Close())
	}
	return &pair{
		newCaller: callerOf(k, func(m, reply *T) error { return c.Call(context.Background(), methodName, m, reply) }),
		close: func() error {
			err := errors.Join(c.Close(), srv.Close())
			served.Wait()
			return err
		},
	}, nil
}

// Service is what net/rpc serves.
type Service[T any] struct{ body body[T] }

// Say answers args.
func (s Service[T]) Say(args, reply *T) error {
	s.body.answer(args)
	s.body.share(reply, args)
	return nil
}

// netrpcPair has net/rpc's own codec where it brings one.
func netrpcPair[T any](k body[T]) (*pair, error) {
	ways := k.own
	if ways == nil {
		ways = framed(k.codec)
	}
	srv := rpc.NewServer()
	if err := srv.RegisterName("Hello", Service[T]{k}); err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer ln.Close() //nolint:errcheck // it has done its work
	dialed, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return nil, err
	}
	accepted, err := ln.Accept()
	if err != nil {
		return nil, errors.Join(err, dialed.Close())
	}
	var served sync.WaitGroup
	served.Go(func() { ways.serve(srv, accepted) })
	c := ways.client(dialed)
	return &pair{
		newCaller: callerOf(k, func(m, reply *T) error { return c.Call(methodName, m, reply) }),
		close: func() error {
			err := c.Close()
			served.Wait()
			return err
		},
	}, nil
}

func callerOf[T any](k body[T], call func(m, reply *T) error) func() func() error {
	return func() func() error {
		m := k.make()
		return func() error {
			reply := new(T)
			if err := call(m, reply); err != nil {
				return err
			}
			return k.check(reply)
		}
	}
}
