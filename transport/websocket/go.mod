module github.com/tandem-rpc/tandem/transport/websocket

go 1.26.0

replace github.com/tandem-rpc/tandem => ../..

require (
	github.com/coder/websocket v1.8.15
	github.com/tandem-rpc/tandem v0.0.0
	go.uber.org/goleak v1.3.0
)
