module github.com/tandem-rpc/tandem/policy/yaml

go 1.26.0

replace github.com/tandem-rpc/tandem => ../..

require (
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.2
	github.com/tandem-rpc/tandem v0.0.0
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.4
)

require (
	github.com/kr/text v0.2.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)
