// Package tandem (stable) is the vocabulary of the tandem RPC framework: the types that
// clients, servers, codecs, transports, registries and interceptors share. It
// imports nothing else of the module.
//
// A program uses it together with package server,
//
//	srv := server.New()
//	srv.Register(new(Arith))
//	err := srv.Serve("tcp", ":8972")
//
// and package client:
//
//	c, err := client.Dial("tcp://127.0.0.1:8972")
//	err = c.Call(ctx, "Arith.Mul", &Args{7, 8}, &reply)
//
// # One shape
//
// Everything that happens to a call, on either side, is a [Func]; everything
// that wraps it is an [Interceptor]: a fail mode, a retry, a limiter, an
// authenticator, a metric. Interceptors see a [Call], whose Body is not yet
// decoded.
//
// # Errors
//
// Every error that leaves the module is an [*Error]. It carries a [Code],
// says whether the server returned it, and whether the call may have executed.
package tandem
