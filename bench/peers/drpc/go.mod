module github.com/tandem-rpc/tandem/bench/peers/drpc

go 1.26

require (
	github.com/tandem-rpc/tandem/bench v0.0.0
	storj.io/drpc v0.0.34
)

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0 // indirect
	github.com/planetscale/vtprotobuf v0.6.0 // indirect
	github.com/zeebo/errs v1.2.2 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	github.com/tandem-rpc/tandem => ../../..
	github.com/tandem-rpc/tandem/bench => ../..
)
