module github.com/tandem-rpc/tandem/registry/mdns

go 1.26.0

replace github.com/tandem-rpc/tandem => ../..

require (
	github.com/hashicorp/mdns v1.0.7
	github.com/miekg/dns v1.1.72
	github.com/tandem-rpc/tandem v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	golang.org/x/mod v0.31.0 // indirect
	golang.org/x/net v0.61.0 // indirect
	golang.org/x/sync v0.19.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/tools v0.40.0 // indirect
)
