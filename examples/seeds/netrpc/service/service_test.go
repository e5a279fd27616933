package service_test

import (
	"testing"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/examples/seeds/netrpc/service"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/tandemtest"
)

func TestArith(t *testing.T) {
	tandemtest.CheckLeaks(t)
	network := tandemtest.NewNetwork(t)
	network.Serve("arith", func(s *server.Server) error { return s.Register(new(service.Arith)) })
	c := network.Dial("arith")
	product, err := client.Invoke[int](t.Context(), c, "Arith.Multiply", &service.Args{A: 7, B: 8})
	if err != nil || *product != 56 {
		t.Errorf("7*8: %v, %v", product, err)
	}
	quotient, err := client.Invoke[service.Quotient](t.Context(), c, "Arith.Divide", &service.Args{A: 17, B: 5})
	if err != nil || *quotient != (service.Quotient{Quo: 3, Rem: 2}) {
		t.Errorf("17/5: %v, %v", quotient, err)
	}
	if err := c.Call(t.Context(), "Arith.Divide", &service.Args{A: 1}, nil); err == nil {
		t.Error("a division by zero did not fail")
	}
}
