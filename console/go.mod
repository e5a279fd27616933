module github.com/tandem-rpc/tandem/console

go 1.26.0

ignore ./ui

replace (
	github.com/tandem-rpc/tandem => ..
	github.com/tandem-rpc/tandem/policy/yaml => ../policy/yaml
)

require (
	github.com/tandem-rpc/tandem v0.0.0
	github.com/tandem-rpc/tandem/policy/yaml v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	go.yaml.in/yaml/v3 v3.0.6 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
