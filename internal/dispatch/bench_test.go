package dispatch

import (
	"context"
	"reflect"
	"testing"
	"unsafe"

	"github.com/tandem-rpc/tandem"
)

// benchType and its method are those of the LittleRpc document's benchmark.
type benchType struct{}

func (*benchType) CallMock(a0 int, a1 string, a2 int64, a3 int64, a4 uintptr) (string, string, string) {
	return "", "", ""
}

// callMock is CallMock with its receiver as the first parameter, which Go calls in
// the same way.
type callMock func(receiver unsafe.Pointer, a0 int, a1 string, a2 int64, a3 int64, a4 uintptr) (string, string, string)

// BenchmarkCall has the document's cells: what Go itself takes to call a method.
// Run it with and without -gcflags=-l.
func BenchmarkCall(b *testing.B) {
	receiver := new(benchType)
	b.Run("ReflectCall", func(b *testing.B) {
		method := reflect.ValueOf(receiver).Method(0)
		args := []reflect.Value{
			reflect.ValueOf(0), reflect.ValueOf("hello"), reflect.ValueOf(int64(100)),
			reflect.ValueOf(int64(100)), reflect.ValueOf(uintptr(10000)),
		}
		for b.Loop() {
			method.Call(args)
		}
	})
	b.Run("MethodValueCall", func(b *testing.B) {
		method := reflect.ValueOf(receiver).Method(0).Interface().(func(int, string, int64, int64, uintptr) (string, string, string))
		for b.Loop() {
			method(0, "hello", 100, 100, 10000)
		}
	})
	b.Run("AnonymousFunctionCall", func(b *testing.B) {
		method := receiver.CallMock
		for b.Loop() {
			method(0, "hello", 100, 100, 10000)
		}
	})
	b.Run("UnsafeCall", func(b *testing.B) {
		// A func value points to a pointer to the code, and the document calls
		// a method's code with an untyped receiver.
		code := reflect.TypeOf(receiver).Method(0).Func.UnsafePointer()
		value := &code
		method := *(*callMock)(unsafe.Pointer(&value))
		for b.Loop() {
			method(unsafe.Pointer(receiver), 0, "hello", 100, 100, 10000)
		}
	})
	b.Run("FunctionCall", func(b *testing.B) {
		for b.Loop() {
			receiver.CallMock(0, "hello", 100, 100, 10000)
		}
	})
}

// nopBody costs almost nothing, so that the benchmarks measure dispatch.
type nopBody struct{}

func (nopBody) Stream() tandem.MessageStream { return nil }
func (nopBody) Decode(any) error             { return nil }
func (nopBody) Encode(any) error             { return nil }

// BenchService has a method of each shape.
type BenchService struct{ Hijacker }

func (*BenchService) NetRPC(args *Args, reply *Reply) error                               { return nil }
func (*BenchService) NetRPCContext(_ context.Context, _ *Args, _ *Reply) error            { return nil }
func (*BenchService) Pointers(_ context.Context, args *Args) (*Reply, error)              { return nil, nil }
func (*BenchService) Five(int, string, int64, int64, uintptr) (a, b, c string, err error) { return }
func (*BenchService) Hijacked(args *Args, reply *Reply) error                             { return nil }

func (s *BenchService) Setup() {
	_ = s.HijackProcess("Hijacked", func(stub *Stub) {
		var args Args
		var reply Reply
		_ = stub.Read(&args)
		_ = stub.Write(&reply)
	})
}

func typedBench(context.Context, *Args) (*Reply, error) { return benchReply, nil }

var benchReply = new(Reply)

// benchTable returns a table with the service and a typed handler.
func benchTable(tb testing.TB) *Table {
	tb.Helper()
	t := New(Config{})
	if err := t.RegisterName("Bench", new(BenchService)); err != nil {
		tb.Fatal(err)
	}
	if err := t.Add(UnaryMethod("Bench.Typed", typedBench)); err != nil {
		tb.Fatal(err)
	}
	return t
}

// heldArgs keeps the arguments of a direct call on the heap, where a handler's are.
var heldArgs *Args

// BenchmarkDispatch measures a method's Func: guard, arguments, method, results.
// "Direct" is the least that is possible: the arguments and a call of the typed handler.
func BenchmarkDispatch(b *testing.B) {
	t := benchTable(b)
	b.Run("Direct", func(b *testing.B) {
		b.ReportAllocs()
		ctx, handler := context.Background(), typedBench
		for b.Loop() {
			heldArgs = new(Args)
			if _, err := handler(ctx, heldArgs); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, name := range []string{"Typed", "NetRPC", "NetRPCContext", "Pointers", "Five", "Hijacked"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			ctx, call, m := context.Background(), &tandem.Call{Body: nopBody{}}, t.Lookup("Bench."+name)
			for b.Loop() {
				if err := m.Func(ctx, call); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTypedUnguarded is a typed handler's Func alone.
func BenchmarkTypedUnguarded(b *testing.B) {
	b.ReportAllocs()
	f, ctx, call := Unary(typedBench), context.Background(), &tandem.Call{Body: nopBody{}}
	for b.Loop() {
		_ = f(ctx, call)
	}
}

// BenchmarkLookup finds one of a thousand methods, on all cores.
func BenchmarkLookup(b *testing.B) {
	t := New(Config{})
	for i := range 1000 {
		if err := t.RegisterFunc("Service"+string(rune('a'+i%26))+".Method"+string(rune(0x4e00+i)), double); err != nil {
			b.Fatal(err)
		}
	}
	if err := t.RegisterFunc("Service.Method", double); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if t.Lookup("Service.Method") == nil {
				b.Error("not found")
			}
		}
	})
}

// TestAllocations checks how often a call of each shape allocates.
func TestAllocations(t *testing.T) {
	table := benchTable(t)
	for name, budget := range map[string]float64{
		"Typed":         1, // the arguments
		"NetRPC":        4, // arguments, reply, and two of reflection: results, error
		"NetRPCContext": 5, // and the context
	} {
		ctx, call, m := context.Background(), &tandem.Call{Body: nopBody{}}, table.Lookup("Bench."+name)
		if got := testing.AllocsPerRun(1000, func() { _ = m.Func(ctx, call) }); got > budget {
			t.Errorf("%s: %v allocations a call, budget %v", name, got, budget)
		}
	}
}
