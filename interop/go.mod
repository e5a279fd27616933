module github.com/tandem-rpc/tandem/interop

go 1.26.0

replace (
	github.com/tandem-rpc/tandem => ../
	github.com/tandem-rpc/tandem/protocol/thrift => ../protocol/thrift
)

require (
	connectrpc.com/connect v1.21.0
	github.com/apache/thrift v0.25.0
	github.com/bufbuild/protocompile v0.14.1
	github.com/tandem-rpc/tandem v0.0.0
	github.com/tandem-rpc/tandem/protocol/thrift v0.0.0
	go.uber.org/goleak v1.3.0
	google.golang.org/grpc v1.83.2
	google.golang.org/protobuf v1.36.11
)

require (
	github.com/coder/websocket v1.8.15 // indirect
	github.com/vmihailenco/msgpack/v5 v5.4.1 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa // indirect
)
