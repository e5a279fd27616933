package rpc

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/dispatch"
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/server"
)

// Server answers calls of net/rpc's clients. All its methods are safe for
// concurrent use.
type Server struct {
	core  *server.Server
	calls sync.Map // *atomic.Uint64: the calls of each method, by its name
}

// maxMessage is the size limit of a message, as in encoding/gob. Memory is allocated as the
// bytes arrive.
const maxMessage = 1 << 30

// NewServer returns a server with the limits of net/rpc's: messages of up to 1 GiB.
// [NewServerWith] sets lower ones.
func NewServer() *Server { return NewServerWith() }

// NewServerWith returns a server with options for its tandem server: interceptors, limits, a
// log. Protocols of [server.WithProtocols] are served in addition to net/rpc's and JSON-RPC's
// on the listeners of [Server.Core].
func NewServerWith(opts ...server.Option) *Server {
	s := new(Server)
	own := []server.Option{
		server.WithMaxMessage(maxMessage),
		server.WithProtocols(netrpc.New(), jsonrpc.New()),
	}
	opts = append(own, opts...)
	s.core = server.New(append(opts, server.WithInterceptors(s.count, plainErrorText))...)
	return s
}

// Over returns a Server that uses an existing tandem server with its options. The page of
// [Server.DebugHandler] then counts no calls.
func Over(core *server.Server) *Server { return &Server{core: core} }

// Core returns the Server's tandem server. Methods that are registered there, with any
// signature that tandem serves, are also served by the Server, and its listeners serve every
// protocol. Its Shutdown and Close end the Server.
func (s *Server) Core() *server.Server { return s.core }

// count counts the calls of each method, for the page of [Server.DebugHandler].
func (s *Server) count(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		n, ok := s.calls.Load(call.Method)
		if !ok {
			n, _ = s.calls.LoadOrStore(call.Method, new(atomic.Uint64))
		}
		n.(*atomic.Uint64).Add(1) //nolint:forcetypeassert // nothing else is stored
		return next(ctx, call)
	}
}

// plainErrorText makes net/rpc's clients get only the text of a method's error, without the name
// of a code that tandem has for it.
func plainErrorText(next tandem.Func) tandem.Func {
	return func(ctx context.Context, call *tandem.Call) error {
		err := next(ctx, call)
		if err == nil || call.Peer.Protocol != protocolName && call.Peer.Protocol != codecProtocolName {
			return err
		}
		if _, ok := errors.AsType[*tandem.Error](err); ok {
			return err
		}
		return &tandem.Error{Code: tandem.Unknown, Message: err.Error()}
	}
}

// Register serves the methods of rcvr that have net/rpc's signature,
//
//	func (t *T) Method(args A, reply *R) error
//
// under the name of its type. A context may come before args: [tandem.FromContext] returns
// the call, with its Peer.
func (s *Server) Register(rcvr any) error { return s.RegisterWith("", rcvr) }

// RegisterName is [Server.Register] with another name for the service. It must not be empty.
func (s *Server) RegisterName(name string, rcvr any) error {
	if name == "" {
		return errors.New("rpc.Register: no service name")
	}
	return s.RegisterWith(name, rcvr)
}

// RegisterWith is [Server.RegisterName] with options of package server: other names for
// methods ([server.MethodName] in [server.ForMethod]), limits. An empty name stands for the
// name of the type.
func (s *Server) RegisterWith(name string, rcvr any, opts ...server.MethodOption) error {
	opts = append([]server.MethodOption{dispatch.WithNetRPC()}, opts...)
	if name == "" {
		return s.core.Register(rcvr, opts...)
	}
	return s.core.RegisterName(name, rcvr, opts...)
}

// Alias serves a method, or all methods of a service, also under another name.
func (s *Server) Alias(alias, name string) error { return s.core.Alias(alias, name) }

// protocolName is the name of package netrpc's protocol.
const protocolName = "netrpc"

// ServeConn serves one connection until its client closes it, and closes it. Programs call it
// in a go statement. A connection that is not a [net.Conn] has no deadlines: it is served
// until its Read returns an error.
func (s *Server) ServeConn(conn io.ReadWriteCloser) { s.serve(conn, nil) }

// ServeJSON is [Server.ServeConn] for a client that uses JSON-RPC 2.0, or 1.0, as
// package protocol/jsonrpc does.
func (s *Server) ServeJSON(conn io.ReadWriteCloser) { s.serveProtocol(conn, jsonrpc.New()) }

// serve is ServeConn with metadata for every call.
func (s *Server) serve(conn io.ReadWriteCloser, md tandem.Metadata) {
	s.serveProtocol(conn, netrpc.New(netrpc.WithMetadata(md), netrpc.CloseOnBadResult()))
}

func (s *Server) serveProtocol(conn io.ReadWriteCloser, p server.Protocol) {
	c, ok := conn.(net.Conn)
	if !ok {
		c = plainConn{conn}
	}
	_ = s.core.ServeProtocol(c, p) // dropped as in net/rpc: the connection is closed
}

// Accept serves the connections of lis until its Accept fails, for example because it was
// closed.
func (s *Server) Accept(lis net.Listener) {
	for {
		conn, err := lis.Accept()
		if err != nil {
			return
		}
		go s.ServeConn(conn)
	}
}

// ServeCodec serves one connection with a codec until there are no more requests, and closes
// the codec. A request's arguments are decoded after the interceptors have passed its call;
// until then no other request is read.
func (s *Server) ServeCodec(codec ServerCodec) {
	p := &codecProtocol{codec: codec}
	if s.core.ServeProtocol(&codecConn{codec: codec, closes: true}, p) != nil {
		_ = codec.Close() // the error is dropped, as in net/rpc
	}
}

// ServeRequest serves one request with a codec, and returns when it is answered. It leaves
// the codec open. It returns an error if the request could not be read.
func (s *Server) ServeRequest(codec ServerCodec) error {
	p := &codecProtocol{codec: codec, once: true}
	if err := s.core.ServeProtocol(&codecConn{codec: codec}, p); err != nil {
		return err
	}
	return p.unread
}
