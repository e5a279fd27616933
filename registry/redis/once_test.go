package redis

import (
	"bufio"
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	goredis "github.com/redis/go-redis/v9"
)

// TestOnce: the client of a Cluster sends a swap once, also if the connection is lost before
// the response. It sends other commands again.
func TestOnce(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var evals atomic.Int64
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { loseEvals(conn, &evals) })
		}
	})
	client := goredis.NewClusterClient(&goredis.ClusterOptions{
		Addrs: []string{ln.Addr().String()}, Protocol: 2, DisableIdentity: true, MaxRetries: -1,
		ClusterSlots: func(context.Context) ([]goredis.ClusterSlot, error) {
			return []goredis.ClusterSlot{{Start: 0, End: 16383, Nodes: []goredis.ClusterNode{{Addr: ln.Addr().String()}}}}, nil
		},
	})
	t.Cleanup(func() {
		ln.Close()
		client.Close()
		all.Wait()
	})
	if err := client.Process(t.Context(), once{goredis.NewCmd(t.Context(), "eval", "return 1", 1, "k")}); err == nil {
		t.Error("a command without a response succeeds")
	}
	if n := evals.Swap(0); n != 1 {
		t.Errorf("the command was sent %d times", n)
	}
	_ = client.Eval(t.Context(), "return 1", []string{"k"}).Err()
	if n := evals.Load(); n < 2 {
		t.Errorf("another command was sent %d times, so this test shows nothing", n)
	}
}

// loseEvals closes a connection when a script comes, and refuses other commands.
func loseEvals(conn net.Conn, evals *atomic.Int64) {
	defer conn.Close()
	lines := bufio.NewScanner(conn)
	for lines.Scan() { // *, the number of arguments; then for each a line with its size, and itself
		args, err := strconv.Atoi(strings.TrimPrefix(lines.Text(), "*"))
		if err != nil {
			return
		}
		for i := range 2 * args {
			if !lines.Scan() {
				return
			}
			if i == 1 && strings.EqualFold(lines.Text(), "eval") {
				evals.Add(1)
				return
			}
		}
		if _, err := conn.Write([]byte("-ERR unknown command\r\n")); err != nil {
			return
		}
	}
}
