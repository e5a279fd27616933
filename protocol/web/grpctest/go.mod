module github.com/tandem-rpc/tandem/protocol/web/grpctest

go 1.26.0

replace github.com/tandem-rpc/tandem => ../../..

require (
	github.com/tandem-rpc/tandem v0.0.0
	google.golang.org/grpc v1.83.2
	google.golang.org/protobuf v1.36.11
)

require (
	connectrpc.com/connect v1.21.0 // indirect
	go.uber.org/goleak v1.3.0
	golang.org/x/net v0.58.0
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa // indirect
)
