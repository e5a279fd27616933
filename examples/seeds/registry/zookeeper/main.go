// Zookeeper is rpcx's server of one service with its plugin for ZooKeeper.
package main

import (
	"time"

	"github.com/rcrowley/go-metrics"

	"github.com/tandem-rpc/tandem/compat/rpcx"
	"github.com/tandem-rpc/tandem/compat/rpcx/registries"
)

type Args struct {
	A int `msg:"a"`
	B int `msg:"b"`
}

type Reply struct {
	C int `msg:"c"`
}

type Arith int

func (t *Arith) Mul(args *Args, reply *Reply) error {
	reply.C = args.A * args.B
	return nil
}

func main() {
	server := rpcx.NewServer()

	plugin := &registries.ZooKeeperRegisterPlugin{
		ServiceAddress:   "tcp@127.0.0.1:1234",
		ZooKeeperServers: []string{"127.0.0.1:2181"},
		BasePath:         "/rpcx",
		Metrics:          metrics.NewRegistry(),
		Services:         make([]string, 1),
		UpdateInterval:   time.Minute,
	}
	server.PluginContainer.Add(plugin)

	server.RegisterName("Arith", new(Arith))
	server.Serve("tcp", "127.0.0.1:1234")
}
