module github.com/tandem-rpc/tandem/transport/quic

go 1.26.0

replace github.com/tandem-rpc/tandem => ../..

require (
	github.com/quic-go/quic-go v0.65.0
	github.com/tandem-rpc/tandem v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
