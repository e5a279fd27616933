package rpcx

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

// A server that accepts connections and does not answer heartbeats becomes a suspect; one
// that answers does not, and gets the calls.
func TestSilentServerIsASuspect(t *testing.T) {
	_, well := serve(t, echoes)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			})
		}
	})
	defer wg.Wait()
	defer ln.Close()
	deaf := "tcp://" + ln.Addr().String()
	c := dial(t, "rpcx://"+well+","+ln.Addr().String(), client.WithConnections(client.Connections{HealthCheck: 100 * time.Millisecond}))
	defer c.Close()
	suspects := func() (list []string) {
		for _, e := range c.Describe("Arith.Mul").Attempts {
			for _, in := range e.Instances {
				if in.Suspect != "" {
					list = append(list, in.ID)
				}
			}
		}
		return list
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // pings over a socket use the wall clock
		list := suspects()
		if len(list) == 1 && list[0] == deaf {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("suspects: %v, want %s", list, deaf)
		}
	}
	if _, err := client.Invoke[Reply](t.Context(), c, "Arith.Mul", &Args{6, 7}, client.FailMode(tandem.Failfast)); err != nil {
		t.Error(err)
	}
}
