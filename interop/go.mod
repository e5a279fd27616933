module github.com/tandem-rpc/tandem/interop

go 1.26.0

replace (
	github.com/tandem-rpc/tandem => ../
	github.com/tandem-rpc/tandem/protocol/thrift => ../protocol/thrift
	github.com/tandem-rpc/tandem/transport/kcp => ../transport/kcp
	github.com/tandem-rpc/tandem/transport/nbio => ../transport/nbio
	github.com/tandem-rpc/tandem/transport/quic => ../transport/quic
	github.com/tandem-rpc/tandem/transport/websocket => ../transport/websocket
)

require (
	connectrpc.com/connect v1.21.1
	github.com/apache/thrift v0.25.0
	github.com/bufbuild/protocompile v0.14.1
	github.com/tandem-rpc/tandem v0.0.0
	github.com/tandem-rpc/tandem/protocol/thrift v0.0.0
	github.com/tandem-rpc/tandem/transport/kcp v0.0.0
	github.com/tandem-rpc/tandem/transport/nbio v0.0.0
	github.com/tandem-rpc/tandem/transport/quic v0.0.0
	github.com/tandem-rpc/tandem/transport/websocket v0.0.0
	go.uber.org/goleak v1.3.0
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	github.com/coder/websocket v1.8.15 // indirect
	github.com/klauspost/cpuid/v2 v2.2.6 // indirect
	github.com/klauspost/reedsolomon v1.12.0 // indirect
	github.com/lesismal/nbio v1.6.9 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/quic-go/quic-go v0.65.0 // indirect
	github.com/tjfoc/gmsm v1.4.1 // indirect
	github.com/vmihailenco/msgpack/v5 v5.4.1 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
	github.com/xtaci/kcp-go/v5 v5.6.24 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
)
