module github.com/tandem-rpc/tandem/registry/kubernetes

go 1.26.0

replace github.com/tandem-rpc/tandem => ../..

require (
	github.com/tandem-rpc/tandem v0.0.0
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.6
)

require (
	connectrpc.com/connect v1.21.1 // indirect
	golang.org/x/net v0.62.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
