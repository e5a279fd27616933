module github.com/tandem-rpc/tandem/bench/peers/grpc

go 1.26.0

require (
	github.com/tandem-rpc/tandem/bench v0.0.0
	google.golang.org/grpc v1.80.0
)

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0 // indirect
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260120221211-b8f7ae30c516 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	github.com/tandem-rpc/tandem => ../../..
	github.com/tandem-rpc/tandem/bench => ../..
)
