// Connect is the peer of connect-go: its own protocol, unary, over HTTP/2
// without TLS, with the bench's generated code as its codec.
//
// The settings are what its documentation and net/http's lead to:
//
//   - net/http's own unencrypted HTTP/2 on both sides, as in connect's README;
//     golang.org/x/net has deprecated its package h2c for it.
//   - No gzip. By default both sides would compress every reply; the
//     documentation of WithCompressMinBytes says that small messages aren't
//     worth it, and no other system of the bench compresses.
//   - No redirects, as "Deployment & h2c" in connect's documentation advises
//     for clients.
//   - More concurrent streams than net/http's 250, so that 1000 callers on two
//     connections don't wait for each other.
//
// A connection is an http.ClientConn of a transport of its own, so that
// nothing opens a second one.
package main

import (
	"context"
	"net"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
	"github.com/tandem-rpc/tandem/bench/peers/ours"
)

const (
	procedure = "/tandem.bench.Hello/Say"

	maxStreams = 1 << 16

	connectTimeout = 10 * time.Second
)

func main() {
	load.Main(load.System{
		Serve: serve, Dial: dialEither,
		Options: []string{ours.Server, ours.Client, grpcWeb},
	})
}

// grpcWeb is the option of calls over gRPC-Web.
const grpcWeb = "grpcweb"

func dialEither(addr string) (load.Caller, error) {
	if load.Named().Has(ours.Client) {
		return ours.Dial("connect", addr, "tandem.bench.Hello.Say")
	}
	return load.DialFor(dial)(addr)
}

func serve(ln net.Listener) error {
	if load.Named().Has(ours.Server) {
		return ours.Serve(ln, "tandem.bench.Hello.Say")
	}
	mux := http.NewServeMux()
	mux.Handle(procedure, connect.NewUnaryHandler(procedure, say,
		connect.WithCodec(generated{}),
		connect.WithCompression("gzip", nil, nil),
	))
	srv := &http.Server{ //nolint:gosec // only the bench connects
		Handler:   mux,
		Protocols: unencrypted(),
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: maxStreams},
	}
	return srv.Serve(ln)
}

func say(_ context.Context, req *connect.Request[message.BenchmarkMessage]) (*connect.Response[message.BenchmarkMessage], error) {
	message.Answer(req.Msg)
	return connect.NewResponse(req.Msg), nil
}

// unencrypted returns HTTP/2 without TLS only.
func unencrypted() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

// caller is a client on one HTTP/2 connection. It is safe for concurrent use.
type caller struct {
	client *connect.Client[message.BenchmarkMessage, message.BenchmarkMessage]
	conn   *http.ClientConn
}

// Call shares the reply, since connect always allocates its own.
func (c caller) Call(req, reply *message.BenchmarkMessage) error {
	res, err := c.client.CallUnary(context.Background(), connect.NewRequest(req))
	if err != nil {
		return err
	}
	message.Share(reply, res.Msg)
	return nil
}

func (c caller) Close() error { return c.conn.Close() }

func dial(addr string) (caller, error) {
	ctx, cancel := context.WithTimeout(context.Background(), connectTimeout)
	defer cancel()
	transport := &http.Transport{Protocols: unencrypted()}
	conn, err := transport.NewClientConn(ctx, "http", addr)
	if err != nil {
		return caller{}, err
	}
	opts := []connect.ClientOption{connect.WithCodec(generated{}), connect.WithAcceptCompression("gzip", nil, nil)}
	if load.Named().Has(grpcWeb) {
		opts = append(opts, connect.WithGRPCWeb())
	}
	client := connect.NewClient[message.BenchmarkMessage, message.BenchmarkMessage](
		&http.Client{Transport: conn, CheckRedirect: stay},
		"http://"+addr+procedure,
		opts...,
	)
	return caller{client, conn}, nil
}

// stay follows no redirect.
func stay(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
