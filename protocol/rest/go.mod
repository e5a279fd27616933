module github.com/tandem-rpc/tandem/protocol/rest

go 1.26.7

replace github.com/tandem-rpc/tandem => ../..

require (
	github.com/bufbuild/protocompile v0.14.1
	github.com/tandem-rpc/tandem v0.0.0
	go.uber.org/goleak v1.3.0
	google.golang.org/genproto/googleapis/api v0.0.0-20260817212433-ac3dfec99bb1
	google.golang.org/protobuf v1.36.12
)

require (
	connectrpc.com/connect v1.21.1 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sync v0.8.0 // indirect
)
