module github.com/tandem-rpc/tandem

go 1.26

require (
	github.com/fsnotify/fsnotify v1.9.0 // indirect
	github.com/klauspost/compress v1.18.7 // indirect
	github.com/vmihailenco/msgpack/v5 v5.4.1 // indirect
	github.com/vmihailenco/tagparser/v2 v2.0.0 // indirect
	go.uber.org/goleak v1.3.0 // indirect
	golang.org/x/sys v0.38.0 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
