package netrpc_test

import (
	"net"
	"net/rpc"
	"testing"

	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/server"
)

// BenchArgs and BenchReply are the argument and the result of the benchmark's calls.
type (
	BenchArgs  struct{ A, B int }
	BenchReply struct{ C int }
)

// BenchArith is the service of the benchmark.
type BenchArith int

// Mul multiplies.
func (BenchArith) Mul(args *BenchArgs, reply *BenchReply) error {
	reply.C = args.A * args.B
	return nil
}

// BenchmarkClient compares the standard library's server with this package, both with the
// standard library's client, with one caller and with many on one connection.
func BenchmarkClient(b *testing.B) {
	for name, serve := range map[string]func(b *testing.B, ln net.Listener){
		"standard": func(b *testing.B, ln net.Listener) {
			srv := rpc.NewServer()
			if err := srv.RegisterName("Arith", BenchArith(0)); err != nil {
				b.Fatal(err)
			}
			go srv.Accept(ln)
			b.Cleanup(func() { _ = ln.Close() })
		},
		"tandem": func(b *testing.B, ln net.Listener) {
			srv := server.New(server.WithProtocols(netrpc.New()))
			if err := srv.RegisterName("Arith", BenchArith(0)); err != nil {
				b.Fatal(err)
			}
			go func() { _ = srv.ServeListener(ln) }()
			b.Cleanup(func() { _ = srv.Close() })
		},
	} {
		for callers, parallel := range map[string]int{"one": 1, "many": 32} {
			b.Run(name+"/"+callers, func(b *testing.B) {
				ln, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				serve(b, ln)
				c, err := rpc.Dial("tcp", ln.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				call := func() {
					reply := new(BenchReply)
					if err := c.Call("Arith.Mul", &BenchArgs{6, 7}, reply); err != nil || reply.C != 42 {
						b.Error(err, reply.C)
					}
				}
				call()
				b.ReportAllocs()
				b.ResetTimer()
				if parallel == 1 {
					for range b.N {
						call()
					}
					return
				}
				b.SetParallelism(parallel / 2)
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						call()
					}
				})
			})
		}
	}
}
