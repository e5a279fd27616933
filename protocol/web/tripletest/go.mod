module github.com/tandem-rpc/tandem/protocol/web/tripletest

go 1.26.0

replace (
	github.com/tandem-rpc/tandem => ../../..
	github.com/tandem-rpc/tandem/registry/zookeeper => ../../../registry/zookeeper
)

require (
	github.com/tandem-rpc/tandem v0.0.0
	github.com/tandem-rpc/tandem/registry/zookeeper v0.0.0
	go.uber.org/goleak v1.3.0
	google.golang.org/protobuf v1.36.12
)

require (
	connectrpc.com/connect v1.21.1 // indirect
	github.com/go-zookeeper/zk v1.0.4 // indirect
)
