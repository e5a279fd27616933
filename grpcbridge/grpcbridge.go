// Package grpcbridge (experimental) runs generated code of gRPC and Connect over tandem: the stubs of
// protoc-gen-go-grpc and protoc-gen-connect-go work unchanged, and their calls are tandem's, with its
// registries, balancing, fail modes, limits, plugins and protocols.
//
//	conn := grpcbridge.NewClient(c) // c is a *client.Client, of any target
//	carts := pb.NewCartsClient(conn)
//
//	err := grpcbridge.Register(srv, func(r grpc.ServiceRegistrar) {
//		pb.RegisterCartsServer(r, impl)
//	})
//
// The client and the server need the codec of package codec/protobuf. Methods are called by their
// full names, "shop.v1.Carts.Add", so clients of every protocol of the server's port reach them.
//
// # What gRPC has and tandem has not
//
// A header of the response, before its first message: it crosses tandem's own protocol between two
// bridges, and gRPC and Connect. Other callers find its pairs in the trailer, as far as their protocol
// carries it.
//
// Methods whose idempotency_level the .proto file gives are retried as [client.Idempotent] says, and
// those without side effects may be called by HTTP's GET.
//
// A call without a deadline gets the default of its client: see [client.WithTimeout].
//
// [client.Idempotent]: https://pkg.go.dev/github.com/tandem-rpc/tandem/client#Idempotent
// [client.WithTimeout]: https://pkg.go.dev/github.com/tandem-rpc/tandem/client#WithTimeout
package grpcbridge

import (
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/tandem-rpc/tandem/codec/protobuf"
)

// protoCodec is the name of the codec of all messages that the bridge sends.
const protoCodec = "protobuf"

// ownProtocol is the name of tandem's own protocol in peers.
const ownProtocol = "tandem"

// messages encodes and decodes; it uses the methods that vtprotobuf generates, too.
var messages = protobuf.Codec() //nolint:gochecknoglobals // never changed

// methodName returns tandem's name of a method, "shop.v1.Carts.Add", for gRPC's,
// "/shop.v1.Carts/Add".
func methodName(full string) string {
	return strings.ReplaceAll(strings.TrimPrefix(full, "/"), "/", ".")
}

// size returns the encoded size of a message, 0 for other values.
func size(v any) int {
	if m, ok := v.(proto.Message); ok {
		return proto.Size(m)
	}
	return 0
}
