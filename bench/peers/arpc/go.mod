module github.com/tandem-rpc/tandem/bench/peers/arpc

go 1.26

require (
	github.com/lesismal/arpc v1.2.11
	github.com/tandem-rpc/tandem/bench v0.0.0
)

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0 // indirect
	github.com/planetscale/vtprotobuf v0.6.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	github.com/tandem-rpc/tandem => ../../..
	github.com/tandem-rpc/tandem/bench => ../..
)
