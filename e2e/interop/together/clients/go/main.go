// Command go calls the gate as one of several clients that are written in Go:
//
//	go KIND ADDRESS CERTIFICATE
//
// It prints the response, as JSON.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/e2e/interop/together"
	"github.com/tandem-rpc/tandem/transport"
)

// method is the method that all clients call, and plain is the same with a message that gob can
// encode.
const (
	method = "gate.v1.Gate.Open"
	plain  = "Plain.Open"
)

// path is the method's path in HTTP.
const path = "/gate.v1.Gate/Open"

// caller calls the gate.
type caller func(ctx context.Context, address string, config *tls.Config) (*visit, error)

// visit is the message, for clients without Protocol Buffers.
type visit struct {
	Client string `json:"client"`
	Inside int32  `json:"inside"`
}

var kinds = map[string]caller{
	"tandem":       ours(false),
	"tandem-tls":   ours(true),
	"net/rpc":      standard(rpc.Dial, plain, "net/rpc"),
	"net/rpc-http": standard(rpc.DialHTTP, plain, "net/rpc-http"),
	"net/rpc-tls": func(ctx context.Context, address string, config *tls.Config) (*visit, error) {
		conn, err := transport.TLS(transport.TCP(), config).Dial(ctx, address)
		if err != nil {
			return nil, err
		}
		return call(rpc.NewClient(conn), plain, "net/rpc-tls")
	},
	"jsonrpc":    standard(jsonrpc.Dial, method, "jsonrpc"),
	"grpc-go":    grpcGo,
	"connect-go": connectGo,
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("go KIND ADDRESS CERTIFICATE")
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(kind, address, certificate string) error {
	open := kinds[kind]
	if open == nil {
		return fmt.Errorf("there is no kind %q", kind)
	}
	pem, err := os.ReadFile(certificate)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return errors.New("that is no certificate")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	v, err := open(ctx, address, &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS13})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(v)
}

// ours returns a caller with tandem's client.
func ours(secure bool) caller {
	return func(ctx context.Context, address string, config *tls.Config) (*visit, error) {
		name, opts := "tandem", []client.Option{client.WithCodec(protobuf.Codec())}
		if secure {
			name, opts = "tandem-tls", append(opts, client.WithTLS(config))
		}
		c, err := client.Dial("tcp://"+address, opts...)
		if err != nil {
			return nil, err
		}
		defer func() { _ = c.Close() }() // the process ends anyway
		var answer together.Visit
		err = c.Call(ctx, method, &together.Visit{Client: name}, &answer)
		return told(&answer), err
	}
}

func told(v *together.Visit) *visit { return &visit{v.GetClient(), v.GetInside()} }

// standard returns a caller with the standard library's client.
func standard(dial func(network, address string) (*rpc.Client, error), method, name string) caller {
	return func(_ context.Context, address string, _ *tls.Config) (*visit, error) {
		c, err := dial("tcp", address)
		if err != nil {
			return nil, err
		}
		return call(c, method, name)
	}
}

func call(c *rpc.Client, method, name string) (*visit, error) {
	defer func() { _ = c.Close() }() // the process ends anyway
	var answer visit
	err := c.Call(method, &visit{Client: name}, &answer)
	return &answer, err
}

// grpcGo calls with gRPC's own client, with TLS.
func grpcGo(ctx context.Context, address string, config *tls.Config) (*visit, error) {
	c, err := grpc.NewClient(address, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // the process ends anyway
	var answer together.Visit
	err = c.Invoke(ctx, path, &together.Visit{Client: "grpc-go"}, &answer)
	return told(&answer), err
}

// connectGo calls with Connect's own client, over HTTP/1.1.
func connectGo(ctx context.Context, address string, _ *tls.Config) (*visit, error) {
	c := connect.NewClient[together.Visit, together.Visit](http.DefaultClient, "http://"+address+path)
	answer, err := c.CallUnary(ctx, connect.NewRequest(&together.Visit{Client: "connect-go"}))
	if err != nil {
		return nil, err
	}
	return told(answer.Msg), nil
}
