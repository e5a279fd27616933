package dispatch

import (
	"context"
	"errors"
	"io"
	"log"
	"net/rpc"
	"os"
	"reflect"
	"slices"
	"testing"
)

type Args struct{ A, B int }

type Reply struct{ C int }

// Arith has methods of all kinds that net/rpc's own tests have, and more.
type Arith int

func (*Arith) Mul(args *Args, reply *Reply) error     { reply.C = args.A * args.B; return nil }
func (Arith) Add(args Args, reply *Reply) error       { reply.C = args.A + args.B; return nil }
func (*Arith) Str(args Args, reply *string) error     { *reply = "s"; return nil }
func (*Arith) Map(i int, reply *map[int]int) error    { (*reply)[i] = i; return nil }
func (*Arith) Slice(i int, reply *[]int) error        { *reply = append(*reply, i); return nil }
func (*Arith) Array(args [2]int, reply *[1]int) error { reply[0] = args[0] + args[1]; return nil }
func (*Arith) Any(args any, reply *any) error         { *reply = args; return nil }
func (*Arith) Func(args func(), reply *int) error     { return nil } // no codec carries it, but net/rpc accepts it
func (*Arith) Reader(r io.Reader, reply *int) error   { return nil }
func (*Arith) Unnamed(args struct{ A int }, reply *struct{ B int }) error {
	reply.B = args.A
	return nil
}
func (*Arith) Pointers(args **Args, reply ***Reply) error { return nil }
func (*Arith) Error(args *Args, reply *Reply) error       { return errors.New("ERROR") }

func (*Arith) ArgNotPublic(args hidden, reply *Reply) error       { return nil }
func (*Arith) PointerNotPublic(args **hidden, reply *Reply) error { return nil }
func (*Arith) ReplyNotPublic(args *Args, reply *hidden) error     { return nil }
func (*Arith) ReplyNotPointer(args *Args, reply Reply) error      { return nil }
func (*Arith) TooFew(args *Args) error                            { return nil }
func (*Arith) TooMany(a, b int, reply *Reply) error               { return nil }
func (*Arith) Variadic(a int, replies ...*Reply) error            { return nil }
func (*Arith) NoError(args *Args, reply *Reply)                   {}
func (*Arith) NotError(args *Args, reply *Reply) string           { return "" }
func (*Arith) TwoResults(args *Args, reply *Reply) (int, error)   { return 0, nil }
func (*Arith) Context(ctx context.Context, args *Args, reply *Reply) error {
	return ctx.Err()
}
func (*Arith) String() string                                    { return "arith" }
func (*Arith) unexported(args *Args, reply *Reply) error         { return nil } //nolint:unused // must not be found
func (*Arith) Scan(args string, reply *int) (err error)          { return nil }
func (*Arith) Own(args *Arith, reply *Arith) error               { return nil }
func (*Arith) Generic(args Pair[int], reply *Pair[hidden]) error { return nil }

// Pair is generic; net/rpc sees only the part of its name before the bracket.
type Pair[T any] struct{ A, B T }

type promoted struct{ N int }

func (*promoted) Promoted(args *Args, reply *Reply) error { return nil }

// Embed has a promoted method of an unexported type.
type Embed struct{ *promoted }

type unexportedService int

func (*unexportedService) M(args *Args, reply *Reply) error { return nil }

type PointerReceiver int

func (*PointerReceiver) M(args *Args, reply *Reply) error { return nil }

type ValueReceiver struct{}

func (ValueReceiver) M(args *Args, reply *Reply) error { return nil }

type Unsuitable int

func (*Unsuitable) Lock()              {}
func (*Unsuitable) Log(v ...any) error { return nil }

// rpcServer registers rcvr with net/rpc, without its log.
func rpcServer(name string, rcvr any) (*rpc.Server, error) {
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)
	server := rpc.NewServer()
	if name == "" {
		return server, server.Register(rcvr)
	}
	return server, server.RegisterName(name, rcvr)
}

// probe is a net/rpc codec that requests a method, but ends before it is called.
type probe struct {
	method string
	found  bool
}

func (p *probe) ReadRequestHeader(r *rpc.Request) error {
	r.ServiceMethod = p.method
	return nil
}

func (p *probe) ReadRequestBody(body any) error {
	p.found = body != nil // nil discards the body for an unknown method
	return io.EOF
}

func (p *probe) WriteResponse(*rpc.Response, any) error { return nil }
func (p *probe) Close() error                           { return nil }

// acceptedByNetRPC returns the methods of rcvr that net/rpc serves.
func acceptedByNetRPC(t *testing.T, rcvr any) (methods []string) {
	t.Helper()
	server, err := rpcServer("S", rcvr)
	must(t, err)
	for m := range reflect.TypeOf(rcvr).Methods() {
		p := &probe{method: "S." + m.Name}
		_ = server.ServeRequest(p)
		if p.found {
			methods = append(methods, p.method)
		}
	}
	return methods
}

func methodNames(t *Table) (names []string) {
	for _, m := range t.Methods() {
		names = append(names, m.Name)
	}
	return names
}

// TestNetRPCParity compares the methods with those that net/rpc accepts of the same
// services. Methods with a context are accepted here in addition.
func TestNetRPCParity(t *testing.T) {
	for _, rcvr := range []any{new(Arith), Embed{}, &Embed{}, ValueReceiver{}, new(ValueReceiver), new(unexportedService)} {
		want := acceptedByNetRPC(t, rcvr)
		table := New(Config{})
		must(t, table.RegisterName("S", rcvr, WithNetRPC()))
		got := slices.DeleteFunc(methodNames(table), func(name string) bool { return name == "S.Context" })
		if !slices.Equal(got, want) {
			t.Errorf("%T:\n got %v\nwant %v", rcvr, got, want)
		}
	}
}

// TestNetRPCMethodsStay checks that methods of net/rpc's shape keep their meaning when
// other shapes are allowed too.
func TestNetRPCMethodsStay(t *testing.T) {
	all, netrpc := New(Config{}), New(Config{})
	must(t, all.Register(new(Arith), WithSkipUnsuitable()))
	must(t, netrpc.Register(new(Arith), WithNetRPC()))
	for _, m := range netrpc.Methods() {
		if other := all.Lookup(m.Name); !reflect.DeepEqual(other.Args, m.Args) || !reflect.DeepEqual(other.Results, m.Results) {
			t.Errorf("%s: %v, %v; want %v, %v", m.Name, other.Args, other.Results, m.Args, m.Results)
		}
	}
	for _, name := range []string{"Arith.TooFew", "Arith.TooMany", "Arith.TwoResults", "Arith.ReplyNotPointer"} {
		if all.Lookup(name) == nil {
			t.Errorf("%s is not served", name)
		}
	}
	for _, name := range []string{"Arith.String", "Arith.NoError", "Arith.Variadic", "Arith.ArgNotPublic", "Arith.unexported", "arith.Mul", "Arith.mul"} {
		if all.Lookup(name) != nil {
			t.Errorf("%s is served", name)
		}
	}
}

// TestNetRPCErrors checks services that neither net/rpc nor the table registers, and the error's hint.
func TestNetRPCErrors(t *testing.T) {
	const hint = "hint: pass a pointer"
	for _, test := range []struct {
		rcvr any
		name string
		want []string
	}{
		{new(unexportedService), "", []string{"unexportedService", "no exported name"}},
		{&struct{ Embed }{}, "", []string{"no exported name"}},
		{PointerReceiver(0), "", []string{"PointerReceiver", "no exported methods of suitable type", hint}},
		{PointerReceiver(0), "S", []string{hint}},
		{new(Unsuitable), "", []string{"no exported methods of suitable type", "Lock: its last result is not an error", "Log: it is variadic"}},
		{5, "S", []string{"type int has no exported methods"}},
	} {
		if _, err := rpcServer(test.name, test.rcvr); err == nil {
			t.Errorf("net/rpc registers %T", test.rcvr)
		}
		table := New(Config{})
		err := table.Register(test.rcvr)
		if test.name != "" {
			err = table.RegisterName(test.name, test.rcvr)
		}
		wantError(t, err, test.want...)
		if len(table.Methods()) != 0 {
			t.Errorf("%T left %v", test.rcvr, table.Methods())
		}
	}
}

// TestNetRPCCalls runs methods of net/rpc's shape.
func TestNetRPCCalls(t *testing.T) {
	table := New(Config{})
	must(t, table.Register(new(Arith), WithSkipUnsuitable()))
	wantCall(t, table, "Arith.Mul", `{"A":7,"B":8}`, `{"C":56}`)
	wantCall(t, table, "Arith.Add", `{"A":7,"B":8}`, `{"C":15}`)
	wantCall(t, table, "Arith.Map", `4`, `{"4":4}`)
	wantCall(t, table, "Arith.Slice", `4`, `[4]`)
	wantCall(t, table, "Arith.Array", `[1,2]`, `[3]`)
	wantCall(t, table, "Arith.Unnamed", `{"A":1}`, `{"B":1}`)
	wantCall(t, table, "Arith.Context", `{}`, `{"C":0}`)
	_, err := call(table, "Arith.Error", `{}`)
	wantError(t, err, "ERROR")
}
