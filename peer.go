package tandem

import (
	"crypto/tls"
	"net"
)

// Peer is the other end of a connection.
type Peer struct {
	Addr      net.Addr // the remote address of the connection
	LocalAddr net.Addr // this side's address of the connection

	TLS      *tls.ConnectionState // nil without TLS
	Protocol string               // "tandem", "grpc", "jsonrpc", …
	Instance string               // the ID of the instance (client)
}
