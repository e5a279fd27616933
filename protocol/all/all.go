// Package all (stable) collects the protocols that a server can serve besides tandem's own:
//
//	srv := server.New(server.WithProtocols(all.New()...))
package all

import (
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/protocol/rpcx"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// New returns every protocol of this module with its defaults, in the order in which they
// are asked whether they accept a connection. JSON-RPC over HTTP and WebSocket is at the
// path /jsonrpc.
func New() []server.Protocol {
	overHTTP := web.WithHandler("/jsonrpc", jsonrpc.Handler(web.Conn, web.Metadata))
	return []server.Protocol{jsonrpc.New(), netrpc.New(), rpcx.New(), web.New(overHTTP)}
}
