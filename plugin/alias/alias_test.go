package alias_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/alias"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type Args struct{ A, B int }

type Arith struct{}

func (Arith) Mul(a *Args, c *int) error {
	*c = a.A * a.B
	return nil
}

func (Arith) Add(a *Args, c *int) error {
	*c = a.A + a.B
	return nil
}

func Example() {
	names := alias.Names{"Calculator": "Arith", "Arith.Times": "Arith.Mul", "Math.Neg": "Neg"}
	srv := server.New(server.WithPlugins(names))
	err := errors.Join(srv.Register(Arith{}), srv.RegisterFunc("Neg", func(n int) int { return -n }))
	fmt.Println(err)
	network := transport.NewMemory()
	ln, _ := network.Listen(context.Background(), "arith")
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, _ := client.Dial("mem://arith", client.WithTransport("mem", network))
	for _, method := range []string{"Arith.Mul", "Arith.Times", "Calculator.Mul", "Calculator.Add"} {
		result, err := client.Invoke[int](context.Background(), c, method, &Args{7, 8})
		fmt.Println(method, *result, err)
	}
	n, err := client.Invoke[int](context.Background(), c, "Math.Neg", 5)
	fmt.Println(*n, err, c.Close(), srv.Close())
	<-served
	// Output:
	// <nil>
	// Arith.Mul 56 <nil>
	// Arith.Times 56 <nil>
	// Calculator.Mul 56 <nil>
	// Calculator.Add 15 <nil>
	// -5 <nil> <nil> <nil>
}

// A name that is taken fails the registration as a whole.
func TestTakenName(t *testing.T) {
	srv := server.New(server.WithPlugins(alias.Names{"Other.Mul": "Arith.Mul"}))
	if err := srv.RegisterFunc("Other.Mul", func() {}); err != nil {
		t.Fatal(err)
	}
	if err := srv.Register(Arith{}); err == nil {
		t.Error("no error")
	}
	if m := srv.Methods(); len(m) != 1 {
		t.Errorf("it serves %q", m)
	}
	if err := srv.RegisterName("Arith2", Arith{}); err != nil {
		t.Errorf("what has no alias: %v", err)
	}
}
