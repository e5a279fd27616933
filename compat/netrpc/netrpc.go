// Package rpc (stable) has the whole exported API of Go's net/rpc, implemented by a tandem server. To
// migrate a program, change its import line:
//
//	import "net/rpc"                                      // before
//	import "github.com/tandem-rpc/tandem/compat/netrpc"   // after: package rpc, too
//
// and net/rpc/jsonrpc becomes compat/netrpc/jsonrpc. The protocol on the wire is net/rpc's,
// so servers and clients can migrate one at a time. [Client], [Call], [Request], [Response],
// the codecs and the errors are net/rpc's own types: existing codecs work, and so do
// libraries that take a *net/rpc.Client.
//
// # What is better
//
// A [Server] is a [server.Server]: a method that panics fails the call and does not end the
// process; interceptors, limits and aliases work; a method may have a context as its first
// parameter, with the caller's address; Core serves further ports, with every protocol of
// tandem.
//
//	srv := rpc.NewServerWith(server.WithInterceptors(audit))
//	srv.Register(new(Arith))
//	go srv.Accept(ln)                            // net/rpc's clients, as ever
//	go srv.Core().Serve("tcp", ":8972")          // tandem's clients, and net/rpc's
//
// # What differs
//
// The error for arguments that can't be decoded has another text. Once a part of a request
// has arrived, 64 KiB more, or its rest, must arrive within ten seconds
// ([server.WithStallTimeout]); the client must also read responses at that rate. A value in
// an interface inside a value in another interface is refused if its type was not sent
// before. At most 4,096 calls of a connection run at a time ([server.WithMaxOpenCalls]);
// further ones wait. Errors of registration are returned, and not logged.
package rpc

import (
	"context"
	"io"
	"net"
	"net/rpc"
)

// The paths on which [HandleHTTP] serves.
const (
	DefaultRPCPath   = "/_goRPC_"
	DefaultDebugPath = "/debug/rpc"
)

// The types that clients and servers share are net/rpc's own.
type (
	// Call is a call made with [Client]'s Go.
	Call = rpc.Call
	// Client makes calls on one connection. It is safe for concurrent use.
	Client = rpc.Client
	// ClientCodec writes requests and reads responses.
	ClientCodec = rpc.ClientCodec
	// Request is the header before the arguments of a call.
	Request = rpc.Request
	// Response is the header before the result of a call.
	Response = rpc.Response
	// ServerCodec reads requests and writes responses.
	ServerCodec = rpc.ServerCodec
	// ServerError is an error that the other side has sent.
	ServerError = rpc.ServerError
)

// ErrShutdown is the error of calls on a connection that is closed.
var ErrShutdown = rpc.ErrShutdown

// DefaultServer is the server of the package's functions. There is one for the process, as in
// net/rpc.
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

// NewClient returns a client on a connection. Its Close closes the connection.
func NewClient(conn io.ReadWriteCloser) *Client { return rpc.NewClient(conn) }

// NewClientWithCodec is [NewClient] with a codec, which owns the connection.
func NewClientWithCodec(codec ClientCodec) *Client { return rpc.NewClientWithCodec(codec) }

// Dial connects to a server, with the system's timeout; see [DialTimeout].
func Dial(network, address string) (*Client, error) {
	return new(Dialer).Dial(context.Background(), network, address)
}

// DialHTTP connects to a server at the default HTTP path.
func DialHTTP(network, address string) (*Client, error) {
	return DialHTTPPath(network, address, DefaultRPCPath)
}

// DialHTTPPath connects to a server at an HTTP path.
func DialHTTPPath(network, address, path string) (*Client, error) {
	return (&Dialer{Path: path}).DialHTTP(context.Background(), network, address)
}
