module github.com/tandem-rpc/tandem/policy/yaml

go 1.26.0

replace github.com/tandem-rpc/tandem => ../..

require (
	github.com/santhosh-tekuri/jsonschema/v6 v6.0.3
	github.com/tandem-rpc/tandem v0.0.0
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.6
)

require golang.org/x/text v0.43.0 // indirect
