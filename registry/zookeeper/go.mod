module github.com/tandem-rpc/tandem/registry/zookeeper

go 1.26.0

replace github.com/tandem-rpc/tandem => ../..

require (
	github.com/go-zookeeper/zk v1.0.4
	github.com/tandem-rpc/tandem v0.0.0
	go.uber.org/goleak v1.3.0
)
