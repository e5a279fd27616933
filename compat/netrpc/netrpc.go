// Package rpc has the whole exported API of Go's net/rpc, with a tandem server
// underneath. To move a program over, change its import line:
//
//	import "net/rpc"                                      // before
//	import "github.com/tandem-rpc/tandem/compat/netrpc"   // after: package rpc, too
//
// and net/rpc/jsonrpc becomes compat/netrpc/jsonrpc. What goes over the wire is
// net/rpc's, so servers and clients move one at a time. Types that both sides of a
// program share, [Client], [Call], [Request], [Response], the codecs and the errors,
// are net/rpc's own: a codec from elsewhere fits, and so does a library that takes
// a *net/rpc.Client.
//
// # What is better
//
// A [Server] is a [server.Server]: a method that panics gives its caller an error
// and the process lives; interceptors, limits and aliases work; a method may take a
// leading context, which knows who calls; Core serves further ports, for every
// protocol that tandem has.
//
//	srv := rpc.NewServerWith(server.WithInterceptors(audit))
//	srv.Register(new(Arith))
//	go srv.Accept(ln)                            // net/rpc's clients, as ever
//	go srv.Core().Serve("tcp", ":8972")          // tandem's clients, and net/rpc's
//
// # What differs
//
// Arguments that don't decode are an error in other words. A request of which a
// part has come must go on to come: 64 KiB, or its rest, within ten seconds
// ([server.WithStallTimeout]); so must the client take what is written to it. A
// value in an interface inside a value in another interface is refused if its type
// was not sent before. At most 4,096 calls of a connection run at a time
// ([server.WithMaxOpenCalls]); further ones wait. Errors of registration are
// returned, not logged as well.
package rpc

import (
	"context"
	"io"
	"net"
	"net/rpc"
)

// Where [HandleHTTP] serves.
const (
	DefaultRPCPath   = "/_goRPC_"
	DefaultDebugPath = "/debug/rpc"
)

// What clients and servers share is net/rpc's own.
type (
	// Call is a call made with [Client]'s Go.
	Call = rpc.Call
	// Client makes calls on one connection. It is safe for concurrent use.
	Client = rpc.Client
	// ClientCodec writes requests and reads responses.
	ClientCodec = rpc.ClientCodec
	// Request is what comes before the arguments of a call.
	Request = rpc.Request
	// Response is what comes before the result of a call.
	Response = rpc.Response
	// ServerCodec reads requests and writes responses.
	ServerCodec = rpc.ServerCodec
	// ServerError is an error that the other side has sent.
	ServerError = rpc.ServerError
)

// ErrShutdown is the error of calls on a connection that is closed.
var ErrShutdown = rpc.ErrShutdown

// DefaultServer is the server of the functions of this package. It is the process's,
// as in net/rpc: programs that move over count on it.
var DefaultServer = NewServer()

// Register is [Server.Register] of the [DefaultServer].
func Register(rcvr any) error { return DefaultServer.Register(rcvr) }

// RegisterName is [Server.RegisterName] of the [DefaultServer].
func RegisterName(name string, rcvr any) error { return DefaultServer.RegisterName(name, rcvr) }

// ServeConn is [Server.ServeConn] of the [DefaultServer].
func ServeConn(conn io.ReadWriteCloser) { DefaultServer.ServeConn(conn) }

// ServeCodec is [Server.ServeCodec] of the [DefaultServer].
func ServeCodec(codec ServerCodec) { DefaultServer.ServeCodec(codec) }

// ServeRequest is [Server.ServeRequest] of the [DefaultServer].
func ServeRequest(codec ServerCodec) error { return DefaultServer.ServeRequest(codec) }

// Accept is [Server.Accept] of the [DefaultServer].
func Accept(lis net.Listener) { DefaultServer.Accept(lis) }

// HandleHTTP is [Server.HandleHTTP] of the [DefaultServer], on the default paths.
func HandleHTTP() { DefaultServer.HandleHTTP(DefaultRPCPath, DefaultDebugPath) }

// NewClient returns a client on a connection, which it closes in the end.
func NewClient(conn io.ReadWriteCloser) *Client { return rpc.NewClient(conn) }

// NewClientWithCodec is [NewClient] with a codec, which has the connection.
func NewClientWithCodec(codec ClientCodec) *Client { return rpc.NewClientWithCodec(codec) }

// Dial connects to a server. It waits as long as the system does; see [DialTimeout].
func Dial(network, address string) (*Client, error) {
	return new(Dialer).Dial(context.Background(), network, address)
}

// DialHTTP connects to a server that listens on the default path of HTTP.
func DialHTTP(network, address string) (*Client, error) {
	return DialHTTPPath(network, address, DefaultRPCPath)
}

// DialHTTPPath connects to a server that listens on a path of HTTP.
func DialHTTPPath(network, address, path string) (*Client, error) {
	return (&Dialer{Path: path}).DialHTTP(context.Background(), network, address)
}
