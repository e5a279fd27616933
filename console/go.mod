module github.com/tandem-rpc/tandem/console

go 1.26.0

replace github.com/tandem-rpc/tandem => ..

require (
	github.com/tandem-rpc/tandem v0.0.0
	go.uber.org/goleak v1.3.0
)

require google.golang.org/protobuf v1.36.12 // indirect
