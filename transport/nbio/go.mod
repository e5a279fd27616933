module github.com/tandem-rpc/tandem/transport/nbio

go 1.26.0

replace github.com/tandem-rpc/tandem => ../..

require (
	github.com/lesismal/nbio v1.6.9
	github.com/tandem-rpc/tandem v0.0.0
	go.uber.org/goleak v1.3.0
	golang.org/x/net v0.62.0
)
