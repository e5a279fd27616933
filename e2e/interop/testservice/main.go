// Command testservice serves grpc.testing.TestService, which the interop clients of
// gRPC's implementations call
// (https://github.com/grpc/grpc/blob/master/doc/interop-test-descriptions.md), with
// health checks, reflection and a few methods of Go. It prints its address on a line.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	cert := flag.String("cert", "", "certificate, for TLS; with -key")
	key := flag.String("key", "", "its key")
	descriptors := flag.String("descriptors", "", "write the service's definition to this file, and end")
	flag.Parse()
	if *descriptors != "" {
		if err := writeDescriptors(*descriptors); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := run(*address, *cert, *key); err != nil {
		log.Fatal(err)
	}
}

// read responds after it has read the whole request, so that it does not respond before it
// gets to an error that a suite has put into the request.
func read(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_, _ = io.WriteString(w, "that was all\n") // fails only if the client has gone
}

func run(address, cert, key string) error {
	pages := web.New(web.WithPages(), web.WithHandler("/read", http.HandlerFunc(read)),
		web.WithCORS(web.CORS{Origins: []string{"https://shop.example"}}))
	srv := server.New(server.WithProtocols(jsonrpc.New(), netrpc.New(), pages))
	_, err := web.RegisterHealth(srv)
	err = errors.Join(err,
		web.RegisterReflection(srv),
		// The suite calls a method that does not exist.
		srv.RegisterName("grpc.testing.TestService", testService{}, server.SkipUnsuitable(), server.ForMethod("StreamingOutputCall", server.MethodSafe())),
		srv.RegisterName("Kinds", kinds{}, server.ForMethod("Count", server.MethodSafe()), server.ForMethod("Split"),
			server.ForMethod("Message"), server.ForMethod("Lists"), server.ForMethod("Maps"), server.ForMethod("Nothing")), // named, as their last results are not errors
		srv.RegisterName("Arith", arith{}, server.ForMethod("Mul", server.MethodSafe())))
	if err != nil {
		return err
	}
	network := transport.TCP()
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return err
		}
		network = transport.TLS(network, &tls.Config{
			Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12,
			NextProtos: pages.(server.ALPN).NextProtos(),
		})
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	ln, err := network.Listen(ctx, address)
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, ln.Addr())
	context.AfterFunc(ctx, func() { _ = srv.Close() }) // the process ends in any case
	if err := srv.ServeListener(ln); !errors.Is(err, server.ErrServerClosed) {
		return err
	}
	return nil
}

// writeDescriptors writes a FileDescriptorSet, for clients without generated code.
func writeDescriptors(file string) error {
	set := &descriptorpb.FileDescriptorSet{}
	service := grpc_testing.File_grpc_testing_test_proto
	for i := range service.Imports().Len() {
		set.File = append(set.File, protodesc.ToFileDescriptorProto(service.Imports().Get(i).FileDescriptor))
	}
	set.File = append(set.File, protodesc.ToFileDescriptorProto(service))
	b, err := proto.Marshal(set)
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}

// Pair has two factors.
type Pair struct {
	A int `json:"a"`
	B int `json:"b"`
}

type arith struct{}

// Mul multiplies.
func (arith) Mul(p *Pair) (int, error) { return p.A * p.B, nil } //nolint:unparam // without an error it would not be served

// Div divides.
func (arith) Div(a, b int) (quo, rem int, err error) {
	if b == 0 {
		return 0, 0, tandem.Errorf(tandem.InvalidArgument, "division by zero")
	}
	return a / b, a % b, nil
}
