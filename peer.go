package tandem

import (
	"crypto/tls"
	"net"
)

// Peer is the other end of a call.
type Peer struct {
	Addr      net.Addr // the remote address of the connection
	LocalAddr net.Addr // our address on the same connection

	// Identity is who the peer was authenticated as; nil if nobody did.
	// Interceptors that authenticate set it.
	Identity any

	TLS      *tls.ConnectionState // nil without TLS
	Protocol string               // "tandem", "grpc", "jsonrpc", …
	Instance string               // the ID of the chosen instance (client)
}
