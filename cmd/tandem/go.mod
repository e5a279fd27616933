module github.com/tandem-rpc/tandem/cmd/tandem

go 1.26

replace (
	github.com/tandem-rpc/tandem => ../..
	github.com/tandem-rpc/tandem/bench => ../../bench
)

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/tandem-rpc/tandem v0.0.0
	github.com/tandem-rpc/tandem/bench v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/planetscale/vtprotobuf v0.6.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
