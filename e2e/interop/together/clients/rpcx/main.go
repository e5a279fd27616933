// Command rpcx calls the gate with rpcx's own client: rpcx ADDRESS. It has its own module,
// outside the workspace, since rpcx requires some seventy modules.
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"time"

	"github.com/smallnest/rpcx/client"
)

// visit is the message. MessagePack encodes the fields with their names in Go.
type visit struct {
	Client string `json:"client"`
	Inside int32  `json:"inside"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("rpcx ADDRESS")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(address string) error {
	discovery, err := client.NewPeer2PeerDiscovery("tcp@"+address, "")
	if err != nil {
		return err
	}
	c := client.NewXClient("gate.v1.Gate", client.Failtry, client.RandomSelect, discovery, client.DefaultOption)
	defer func() { _ = c.Close() }() // the process ends anyway
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var answer visit
	if err := c.Call(ctx, "Open", &visit{Client: "rpcx"}, &answer); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}
