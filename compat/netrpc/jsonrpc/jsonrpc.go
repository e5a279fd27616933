// Package jsonrpc (stable) has the whole exported API of Go's net/rpc/jsonrpc, for servers
// of package compat/netrpc. It uses JSON-RPC 1.0, as net/rpc/jsonrpc does.
//
// For JSON-RPC 2.0, there are functions whose names end in 2.
package jsonrpc

import (
	"context"
	"io"
	"net"
	"net/rpc/jsonrpc"

	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
	"github.com/tandem-rpc/tandem/transport"
)

// NewServerCodec returns a codec for [rpc.Server.ServeCodec] that uses JSON-RPC
// 1.0 on conn.
func NewServerCodec(conn io.ReadWriteCloser) rpc.ServerCodec { return jsonrpc.NewServerCodec(conn) }

// ServeConn serves one connection with JSON-RPC 1.0 and the [rpc.DefaultServer]. It returns
// when the client has closed the connection, and closes it. Programs call it in a go
// statement.
func ServeConn(conn io.ReadWriteCloser) { rpc.ServeCodec(NewServerCodec(conn)) }

// NewClientCodec returns a codec for [rpc.NewClientWithCodec] that uses JSON-RPC
// 1.0 on conn.
func NewClientCodec(conn io.ReadWriteCloser) rpc.ClientCodec { return jsonrpc.NewClientCodec(conn) }

// NewClient returns a client that uses JSON-RPC 1.0 on a connection. Its Close closes the
// connection.
func NewClient(conn io.ReadWriteCloser) *rpc.Client { return jsonrpc.NewClient(conn) }

// Dial connects to a server of JSON-RPC 1.0.
func Dial(network, address string) (*rpc.Client, error) {
	conn, err := connect(network, address)
	if err != nil {
		return nil, err
	}
	return NewClient(conn), nil
}

func connect(network, address string) (net.Conn, error) {
	return transport.Stream(network).Dial(context.Background(), address)
}
