//go:build integration && linux

package dns_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

// lyingFor is how long a name server lies in the test: longer than the 30 s after which a client
// gives up instances that have vanished and don't answer.
const lyingFor = 40 * time.Second

// lies are what a name server may say for a while. harm is whether calls may fail meanwhile.
var lies = map[string]struct {
	lie  func(response []byte) []byte
	harm bool
}{
	"no such name": {lie: func(r []byte) []byte { return negative(r, 3) }},
	"no records":   {lie: func(r []byte) []byte { return negative(r, 0) }},
	"failure":      {lie: func(r []byte) []byte { return negative(r, 2) }},
	"refused":      {lie: func(r []byte) []byte { return negative(r, 5) }},
	"silence":      {lie: func([]byte) []byte { return nil }},
	"garbage":      {lie: func(r []byte) []byte { return bytes.Repeat([]byte{0xc0}, len(r)) }},
	"cut off":      {lie: func(r []byte) []byte { return r[:len(r)-3] }},
	"another id":   {lie: func(r []byte) []byte { r[0] ^= 0xff; return r }},
	"wrong addresses": {harm: true, lie: func(r []byte) []byte {
		return bytes.ReplaceAll(r, []byte{127, 0, 0}, []byte{127, 9, 9})
	}},
}

// negative returns a response without records and with a code.
func negative(response []byte, code byte) []byte {
	r := bytes.Clone(response)
	r[3] = r[3]&0xf0 | code
	end := 12 + bytes.IndexByte(r[12:], 0) + 5
	copy(r[6:12], make([]byte, 6))
	return r[:end]
}

// TestRealLies: a name server lies for 40 s. No call fails, unless it names other addresses: then
// calls fail at most until it has stopped, and 10 s longer.
func TestRealLies(t *testing.T) {
	port := startServers(t)
	z := startZone(t, "price 1 A 127.0.0.2", "price 1 A 127.0.0.3", "price 1 A 127.0.0.4")
	for name, tc := range lies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := startLiar(t, z.knot)
			c, err := client.Dial("dns://price." + domain + ":" + port + "?server=" + l.address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := call(c); err != nil {
				t.Fatal(err)
			}
			l.lie.Store(&tc.lie)
			failed := callFor(c, lyingFor)
			l.lie.Store(nil)
			if failed != nil && !tc.harm {
				t.Errorf("a call failed: %v", failed)
			}
			after := time.Now()
			for err := call(c); err != nil; err = call(c) {
				if time.Since(after) > 10*time.Second {
					t.Fatalf("calls fail %v after the lie: %v", time.Since(after), err)
				}
			}
			if err := callFor(c, 3*time.Second); err != nil {
				t.Errorf("a call failed after the lie: %v", err)
			}
		})
	}
}

// startServers starts a server at each of three addresses, and returns their port.
func startServers(t *testing.T) string {
	t.Helper()
	port := "0"
	for i := 2; i <= 4; i++ {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.%d:%s", i, port))
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ = net.SplitHostPort(ln.Addr().String())
		srv := server.New()
		if err := server.Handle(srv, "Price.Get", func(_ context.Context, n *int) (*int, error) { return n, nil }); err != nil {
			t.Fatal(err)
		}
		var group sync.WaitGroup
		group.Go(func() { _ = srv.ServeListener(ln) })
		t.Cleanup(group.Wait)
		t.Cleanup(func() { srv.Close() })
	}
	return port
}

func call(c *client.Client) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := client.Invoke[int](ctx, c, "Price.Get", 1)
	return err
}

// callFor makes calls for d, and returns the first error.
func callFor(c *client.Client, d time.Duration) (first error) {
	for start := time.Now(); time.Since(start) < d; time.Sleep(20 * time.Millisecond) { // calls of a user, which take real time
		if err := call(c); err != nil && first == nil {
			first = err
		}
	}
	return first
}
