// Client is the client of the article on net/rpc's performance, written after the article's
// description: several connections, several goroutines on each, and a number of sequential
// requests in each goroutine; then it prints how many results were right, and the rate.
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"time"

	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
	"github.com/tandem-rpc/tandem/examples/seeds/netrpc/service"
)

func main() {
	connections := flag.Int("connections", 2, "how many connections")
	concurrency := flag.Int("concurrency", 4, "how many goroutines on each")
	requests := flag.Int("requests", 100, "how many requests of each")
	flag.Parse()
	var right atomic.Int64
	var wg sync.WaitGroup
	began := time.Now()
	for range *connections {
		client, err := rpc.Dial("tcp", "127.0.0.1:4200")
		if err != nil {
			log.Fatal("dialing:", err)
		}
		defer client.Close()
		for g := range *concurrency {
			wg.Go(func() {
				for i := range *requests {
					var reply int
					if err := client.Call("Arith.Multiply", service.Args{A: g, B: i}, &reply); err == nil && reply == g*i {
						right.Add(1)
					}
				}
			})
		}
	}
	wg.Wait()
	fmt.Printf("%d of %d right\n", right.Load(), *connections**concurrency**requests)
	fmt.Fprintf(os.Stderr, "%.0f requests a second\n", float64(right.Load())/time.Since(began).Seconds())
}
