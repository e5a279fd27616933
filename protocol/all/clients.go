package all

import (
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/protocol/rpcx"
	"github.com/tandem-rpc/tandem/protocol/web"
)

// Clients returns every protocol by which a client can call servers of other frameworks,
// with its defaults, for [client.WithProtocols]; JSON-RPC over HTTP uses the path /jsonrpc,
// as [New] does. The scheme of the target chooses the protocol and with it the codec:
// Protocol Buffers for grpc://, gob for netrpc://, MessagePack for rpcx://, JSON for
// jsonrpc://, tandem's own gob for tcp://. [client.WithCodec] chooses another that the
// protocol supports. For a registry's target it is JSON.
func Clients() []client.Protocol {
	return []client.Protocol{
		jsonrpc.Client(), jsonrpc.HTTPClient("/jsonrpc"), netrpc.Client(), netrpc.HTTPClient("", nil), rpcx.Client(),
		web.GRPC(), web.Connect(),
	}
}
