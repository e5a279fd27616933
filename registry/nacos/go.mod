module github.com/tandem-rpc/tandem/registry/nacos

go 1.26.0

replace github.com/tandem-rpc/tandem => ../..

require (
	github.com/tandem-rpc/tandem v0.0.0
	go.uber.org/goleak v1.3.0
)
