module github.com/tandem-rpc/tandem

go 1.26
