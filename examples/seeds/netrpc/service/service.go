// Package service is the service of the article on net/rpc's performance.
package service

import "errors"

// Args are two numbers.
type Args struct {
	A, B int
}

// Quotient is a quotient with its remainder.
type Quotient struct {
	Quo, Rem int
}

// Arith multiplies and divides.
type Arith int

// Multiply multiplies.
func (t *Arith) Multiply(args Args, reply *int) error {
	*reply = args.A * args.B
	return nil
}

// Divide divides.
func (t *Arith) Divide(args Args, quo *Quotient) error {
	if args.B == 0 {
		return errors.New("Divided by zero!")
	}
	quo.Quo = args.A / args.B
	quo.Rem = args.A % args.B
	return nil
}
