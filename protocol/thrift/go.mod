module github.com/tandem-rpc/tandem/protocol/thrift

go 1.26.0

replace github.com/tandem-rpc/tandem => ../..

require (
	github.com/apache/thrift v0.25.0
	github.com/tandem-rpc/tandem v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	connectrpc.com/connect v1.21.1 // indirect
	github.com/coder/websocket v1.8.15 // indirect
	github.com/vmihailenco/msgpack/v5 v5.4.1 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
