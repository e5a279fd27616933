// Package services has the services of tandem demo and tandem serve: Arith and Hello, as in the
// examples of many RPC systems, Chat, a stream, and Ledger, whose method must not run twice.
package services

import (
	"context"
	"errors"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// The names of the methods.
const (
	Mul    = "Arith.Mul"
	Say    = "Hello.Say"
	Talk   = "Chat.Talk"
	Append = "Ledger.Append"
)

// Register serves Arith, Hello and Chat.
func Register(srv *server.Server) error {
	return errors.Join(
		srv.Register(new(Arith)),
		server.Handle(srv, Say, say),
		server.HandleStream(srv, Talk, talk),
	)
}

// Args are the two factors of [Arith.Mul].
type Args struct{ A, B int }

// Reply is their product.
type Reply struct{ C int }

// Arith calculates.
type Arith struct{}

// Mul multiplies.
func (*Arith) Mul(args *Args, reply *Reply) error {
	reply.C = args.A * args.B
	return nil
}

// Div divides. It is a method of several arguments and results.
func (*Arith) Div(a, b int) (quotient, remainder int, err error) {
	if b == 0 {
		return 0, 0, tandem.Errorf(tandem.InvalidArgument, "%d divided by zero", a)
	}
	return a / b, a % b, nil
}

// Line is a message of [Talk].
type Line struct{ Text string }

// talk answers every line until the caller ends the stream.
func talk(_ context.Context, s *tandem.Stream[Line, Line]) error {
	for line, err := range s.All() {
		if err != nil {
			return err
		}
		if err := s.Send(&Line{Text: "you said: " + line.Text}); err != nil {
			return err
		}
	}
	return nil
}
