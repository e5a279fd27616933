// Server is the server of the article on net/rpc's performance.
package main

import (
	"log"
	"net"
	"runtime"

	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
	"github.com/tandem-rpc/tandem/examples/seeds/netrpc/service"
)

func main() {
	runtime.GOMAXPROCS(4)
	arith := new(service.Arith)
	server := rpc.NewServer()
	log.Printf("Register service:%v\n", arith)
	server.Register(arith)

	log.Printf("Listen tcp on port %d\n", 4200)
	l, e := net.Listen("tcp", ":4200")

	if e != nil {
		log.Fatal("Listen error:", e)
	}
	log.Println("Ready to accept connection...")
	conCount := 0
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				log.Fatal("Accept Error:,", err)
				continue
			}
			conCount++
			log.Printf("Receive Client Connection %d\n", conCount)
			go server.ServeConn(conn)
		}
	}()
	select {}
}
