module github.com/tandem-rpc/tandem/grpcbridge

go 1.26.0

replace github.com/tandem-rpc/tandem => ..

require (
	connectrpc.com/connect v1.21.1
	github.com/tandem-rpc/tandem v0.0.0
	go.uber.org/goleak v1.3.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1
	google.golang.org/grpc v1.85.0
	google.golang.org/protobuf v1.36.12
)

require (
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
