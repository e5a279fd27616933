module github.com/tandem-rpc/tandem/console

go 1.26.0
