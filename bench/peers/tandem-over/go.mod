module github.com/tandem-rpc/tandem/bench/peers/tandem-over

go 1.26.0

require (
	github.com/tandem-rpc/tandem v0.0.0
	github.com/tandem-rpc/tandem/bench v0.0.0
	github.com/tandem-rpc/tandem/transport/kcp v0.0.0
	github.com/tandem-rpc/tandem/transport/nbio v0.0.0
	github.com/tandem-rpc/tandem/transport/quic v0.0.0
	github.com/tandem-rpc/tandem/transport/websocket v0.0.0
)

require (
	github.com/HdrHistogram/hdrhistogram-go v1.4.0 // indirect
	github.com/coder/websocket v1.8.15 // indirect
	github.com/klauspost/cpuid/v2 v2.2.6 // indirect
	github.com/klauspost/reedsolomon v1.12.0 // indirect
	github.com/lesismal/nbio v1.6.9 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/planetscale/vtprotobuf v0.6.0 // indirect
	github.com/quic-go/quic-go v0.65.0 // indirect
	github.com/tjfoc/gmsm v1.4.1 // indirect
	github.com/xtaci/kcp-go/v5 v5.6.24 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	github.com/tandem-rpc/tandem => ../../..
	github.com/tandem-rpc/tandem/bench => ../..
	github.com/tandem-rpc/tandem/transport/kcp => ../../../transport/kcp
	github.com/tandem-rpc/tandem/transport/nbio => ../../../transport/nbio
	github.com/tandem-rpc/tandem/transport/quic => ../../../transport/quic
	github.com/tandem-rpc/tandem/transport/websocket => ../../../transport/websocket
)
