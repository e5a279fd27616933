package main

import (
	"context"

	"github.com/smallnest/rpcx/client"
	"github.com/smallnest/rpcx/protocol"
	"github.com/smallnest/rpcx/server"

	"github.com/tandem-rpc/tandem/bench/load"
	"github.com/tandem-rpc/tandem/bench/message"
)

// echo answers with the bytes that came, with rpcx's raw codec.
func echo(ctx *server.Context) error {
	message.Work()
	return ctx.Write(ctx.Payload())
}

// bytesCaller calls with plain bytes. Any number of goroutines may use it.
type bytesCaller struct {
	*client.Client
	payload []byte
}

func (c bytesCaller) Exchange() ([]byte, error) {
	var answer []byte
	err := c.Call(context.Background(), "Bytes", "Echo", c.payload, &answer)
	return answer, err
}

// dialBytes is dial for the option bytes.
func dialBytes(addr string) (load.Caller, error) {
	size := load.Named().Bytes("bytes")
	option := client.DefaultOption
	option.SerializeType = protocol.SerializeNone
	c := client.NewClient(option)
	return load.CallBytes(bytesCaller{c, load.Payload(size)}, size), c.Connect("tcp", addr)
}
