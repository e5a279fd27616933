package jsonrpc_test

import (
	"context"
	"errors"
	"net/rpc"
	stdjson "net/rpc/jsonrpc"
	"strings"
	"sync"
	"testing"

	"github.com/tandem-rpc/tandem/server"
)

type Args struct{ A, B int }

type Reply struct{ C int }

// Arith is a service as in net/rpc's own tests.
type Arith struct{}

func (Arith) Add(a *Args, r *Reply) error {
	r.C = a.A + a.B
	return nil
}

func (Arith) Mul(a Args, r *Reply) error {
	r.C = a.A * a.B
	return nil
}

func (Arith) Div(a *Args, r *Reply) error {
	if a.B == 0 {
		return errors.New("divide by zero")
	}
	r.C = a.A / a.B
	return nil
}

func (Arith) Sum(list []int, sum *int) error {
	for _, n := range list {
		*sum += n
	}
	return nil
}

func (Arith) Error(*Args, *Reply) error { panic("ERROR") }

// TestStandardClient uses net/rpc/jsonrpc's client, with calls in turn and concurrent ones.
func TestStandardClient(t *testing.T) {
	srv, address := serve(t)
	if err := srv.Register(Arith{}); err != nil {
		t.Fatal(err)
	}
	c, err := stdjson.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			var sum, product Reply
			var total int
			err := errors.Join(c.Call("Arith.Add", &Args{i, 8}, &sum), c.Call("Arith.Mul", Args{i, 8}, &product), c.Call("Arith.Sum", []int{i, 2}, &total))
			if err != nil || sum.C != i+8 || product.C != 8*i || total != i+2 {
				t.Errorf("%d: %v, %v, %v, %v", i, sum, product, total, err)
			}
		})
	}
	wg.Wait()
	for method, want := range map[string]string{
		"Arith.Div":     "divide by zero",
		"Arith.Unheard": "rpc: can't find method Arith.Unheard",
		"Nobody.Add":    "rpc: can't find service Nobody.Add",
		"Add":           "rpc: service/method request ill-formed: Add",
		"Arith.Error":   "internal: method Arith.Error panicked",
	} {
		err := c.Call(method, &Args{1, 0}, new(Reply))
		if _, ok := errors.AsType[rpc.ServerError](err); !ok || err.Error() != want {
			t.Errorf("%s: %v, want %q", method, err, want)
		}
	}
	if err := c.Call("Arith.Add", "text", new(Reply)); err == nil || !strings.Contains(err.Error(), "type") {
		t.Errorf("arguments of a wrong type: %v", err)
	}
}

// Silent marshals itself as null.
type Silent int

func (Silent) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// A nil result is a valid response for net/rpc/jsonrpc's client too, which would end the
// connection, with all its calls, if it got null.
func TestStandardClientGetsNil(t *testing.T) {
	srv, address := serve(t)
	gate := make(chan bool)
	register(t, srv, "wait", func(int) string {
		<-gate
		return "waited"
	})
	register(t, srv, "list", func(int) []string { return nil })
	register(t, srv, "bytes", func(int) []byte { return nil })
	register(t, srv, "map", func(int) map[string]int { return nil })
	register(t, srv, "pointer", func(int) *Reply { return nil })
	register(t, srv, "number", func(int) *int { return nil })
	register(t, srv, "any", func(int) any { return nil })
	register(t, srv, "silent", func(int) Silent { return 1 })
	register(t, srv, "nothing", func(int) {})
	err := errors.Join(
		server.Handle(srv, "typed list", func(context.Context, *int) (*[]string, error) { return nil, nil }),
		server.Handle(srv, "typed pointer", func(context.Context, *int) (**Reply, error) { return new(*Reply), nil }),
		server.Handle(srv, "typed any", func(context.Context, *int) (*any, error) { return new(any), nil }),
	)
	if err != nil {
		t.Fatal(err)
	}
	c, err := stdjson.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var waited string
	waiting := c.Go("wait", 1, &waited, nil)
	for method, reply := range map[string]any{
		"list": new([]string), "bytes": new([]byte), "map": new(map[string]int), "pointer": new(Reply), "number": new(int),
		"any": new(any), "silent": new(any), "nothing": new(struct{}), "typed list": new([]string), "typed pointer": new(*Reply), "typed any": new(any),
	} {
		if err := c.Call(method, 1, reply); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	if err := c.Call("nothing", 1, nil); err != nil {
		t.Error(err)
	}
	close(gate)
	if <-waiting.Done; waiting.Error != nil || waited != "waited" {
		t.Errorf("a call beside them: %q, %v", waited, waiting.Error)
	}
}

// Requests of version 1.0 that Go's client does not make.
func TestVersion1(t *testing.T) {
	srv, address := serve(t)
	if err := srv.Register(Arith{}); err != nil {
		t.Fatal(err)
	}
	register(t, srv, "now", func() string { return "now" })
	register(t, srv, "forget", func(int) {})
	register(t, srv, "bytes", func() []byte { return nil })
	register(t, srv, "list", func() []string { return nil })
	c := dial(t, address)
	for _, e := range []struct{ request, want string }{
		{`{"method":"Arith.Add","params":[{"A":1,"B":2}],"id":{"any":"thing"}}`, `{"result":{"C":3},"error":null,"id":{"any":"thing"}}`},
		{`{"method":"Arith.Add","params":[1,2],"id":1}`, `{"result":{"C":3},"error":null,"id":1}`},
		{`{"method":"now","params":[],"id":1}`, `{"result":"now","error":null,"id":1}`},
		{`{"method":"now","params":[null],"id":1}`, `{"result":"now","error":null,"id":1}`},
		{`{"method":"forget","params":[1],"id":1}`, `{"result":{},"error":null,"id":1}`},
		{`{"method":"bytes","params":[],"id":1}`, `{"result":"","error":null,"id":1}`},
		{`{"method":"list","params":[],"id":1}`, `{"result":[],"error":null,"id":1}`},
		{`{"jsonrpc":"2.0","method":"list","params":[],"id":1}`, `{"jsonrpc":"2.0","result":null,"id":1}`},
		{`{"method":"Arith.Add","params":[{"A":1,"B":2}],"id":null}{"method":"now","params":[],"id":2}`, `{"result":"now","error":null,"id":2}`},
		{`{"method":"Arith.Add","id":"x"}`, `{"id":"x","result":null,"error":"invalid argument: arguments of Arith.Add: there are no params"}`},
		{`{"method":"Arith.Add","params":{"A":1},"id":"x"}`, `{"id":"x","result":null,"error":"invalid argument: arguments of Arith.Add: version 1.0 has params in an array"}`},
		{`{}`, `{"id":null,"result":null,"error":"it names no method"}`},
		{`{"method":"now","params":[]}`, `{"id":null,"result":null,"error":"it has no id"}`},
	} {
		c.send(e.request)
		if got := c.receive(); got != e.want {
			t.Errorf("%s:\n got %s\nwant %s", e.request, got, e.want)
		}
	}
	c.end()
}
