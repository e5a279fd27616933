module github.com/tandem-rpc/tandem/registry/kubernetes

go 1.26.0

replace github.com/tandem-rpc/tandem => ../..

require (
	github.com/tandem-rpc/tandem v0.0.0
	go.yaml.in/yaml/v3 v3.0.6
)
