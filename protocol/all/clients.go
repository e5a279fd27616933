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
// at the path /jsonrpc, where [New] has it. The scheme of the target chooses the protocol
// and with it the codec: grpc:// Protocol Buffers, netrpc:// gob, rpcx:// MessagePack,
// jsonrpc:// JSON, tcp:// tandem's own gob. [client.WithCodec] chooses another that the
// protocol carries. Of a registry's target it is JSON.
func Clients() []client.Protocol {
	return []client.Protocol{
		jsonrpc.Client(), jsonrpc.HTTPClient("/jsonrpc"), netrpc.Client(), netrpc.HTTPClient("", nil), rpcx.Client(),
		web.GRPC(), web.Connect(),
	}
}
