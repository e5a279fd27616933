module github.com/tandem-rpc/tandem/bench

go 1.26

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0
	github.com/planetscale/vtprotobuf v0.6.0
	google.golang.org/protobuf v1.36.12
)

require go.uber.org/goleak v1.3.0
