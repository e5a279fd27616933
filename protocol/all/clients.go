package all

import (
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/protocol/jsonrpc"
	"github.com/tandem-rpc/tandem/protocol/netrpc"
	"github.com/tandem-rpc/tandem/protocol/rpcx"
	"github.com/tandem-rpc/tandem/protocol/web"
)

// Clients returns every protocol that a client can speak at servers that are not
// tandem's, with its defaults, for [client.WithProtocols]; JSON-RPC over HTTP
// at the path /jsonrpc, where [New] has it. Name the codec with
// [client.WithCodec]: the first that these would choose is for one of them.
func Clients() []client.Protocol {
	return []client.Protocol{
		jsonrpc.Client(), jsonrpc.HTTPClient("/jsonrpc"), netrpc.Client(), netrpc.HTTPClient("", nil), rpcx.Client(),
		web.GRPC(), web.Connect(),
	}
}
