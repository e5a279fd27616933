module github.com/tandem-rpc/tandem/registry/mdns

go 1.26.0

replace github.com/tandem-rpc/tandem => ../..

require (
	github.com/hashicorp/mdns v1.0.7
	github.com/miekg/dns v1.1.73
	github.com/tandem-rpc/tandem v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
