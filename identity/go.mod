module github.com/tandem-rpc/tandem/identity

go 1.26.0

replace github.com/tandem-rpc/tandem => ..

require (
	github.com/coreos/go-oidc/v3 v3.21.0
	github.com/go-jose/go-jose/v4 v4.1.4
	github.com/golang-jwt/jwt/v5 v5.3.1
	github.com/tandem-rpc/tandem v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	connectrpc.com/connect v1.21.1 // indirect
	github.com/coder/websocket v1.8.15 // indirect
	github.com/vmihailenco/msgpack/v5 v5.4.1 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/oauth2 v0.36.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
