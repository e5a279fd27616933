module github.com/tandem-rpc/tandem/protocol/jsonrpc/jsonrpctest

go 1.26.0

replace github.com/tandem-rpc/tandem => ../../..

require (
	github.com/creachadair/jrpc2 v1.3.6
	github.com/tandem-rpc/tandem v0.0.0
)

require (
	github.com/coder/websocket v1.8.15 // indirect
	github.com/creachadair/mds v0.31.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
)
