//go:build unix

package server_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/server"
)

const (
	refusingServer = "TANDEM_TEST_REFUSING_SERVER"
	poolSize       = 16
)

// TestServeForRefusals is the server of BenchmarkRefusal, in a process of its own; elsewhere it
// does nothing. For every line of its input it prints the CPU time that it has used and the
// requests it has refused.
func TestServeForRefusals(t *testing.T) {
	if os.Getenv(refusingServer) == "" {
		return
	}
	pool := make(chan struct{}, poolSize)
	srv := server.New()
	err := server.Handle(srv, "Pool.Use", func(ctx context.Context, _ *int) (*int, error) {
		select {
		case pool <- struct{}{}:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		time.Sleep(50 * time.Millisecond) // what the handler does with its place in the pool
		<-pool
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = srv.ServeListener(ln) }()
	defer srv.Close()
	fmt.Println(ln.Addr())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			t.Fatal(err)
		}
		refused := srv.Overload().Refused
		fmt.Println(r.Utime.Nano()+r.Stime.Nano(), refused.Late+refused.Expired+refused.Full)
	}
}

// BenchmarkRefusal measures the CPU time of a server for each request that it refuses, reading
// it and writing the response included. A thousand callers, who call again at once, share one
// connection or have one each. What the server uses in the same time when as many callers call
// as it can serve is subtracted: it is no cost of refusing.
func BenchmarkRefusal(b *testing.B) {
	const callers = 1000
	for name, clients := range map[string]int{"one connection": 1, "a connection a caller": callers} {
		b.Run(name, func(b *testing.B) {
			usage, address := startRefusing(b)
			all := make([]*client.Client, clients)
			for i := range all {
				c, err := client.Dial("tcp://"+address, client.WithThrottle(nil), client.WithTimeout(time.Second))
				if err != nil {
					b.Fatal(err)
				}
				defer c.Close()
				all[i] = c
			}
			var calls, refusals atomic.Int64
			call := func(callers int, goesOn func() bool) {
				var wg sync.WaitGroup
				for i := range callers {
					wg.Go(func() {
						for goesOn() {
							err := all[i%clients].Call(context.Background(), "Pool.Use", 1, nil)
							calls.Add(1)
							if tandem.CodeOf(err) == tandem.ResourceExhausted {
								refusals.Add(1)
							}
						}
					})
				}
				wg.Wait()
			}
			cpu, _ := usage()
			began := time.Now()
			call(poolSize, func() bool { return time.Since(began) < 2*time.Second })
			cpuAfter, _ := usage()
			alone := float64(cpuAfter-cpu) / float64(time.Since(began))

			call(callers, func() bool { return refusals.Load() < callers }) // until the server is overloaded
			cpu, refused := usage()
			until, beganAll := refusals.Load()+int64(b.N), calls.Load()
			began = time.Now()
			b.ResetTimer()
			call(callers, func() bool { return refusals.Load() < until })
			b.StopTimer()
			cpuAfter, refusedAfter := usage()
			if n := refusedAfter - refused; n > 0 {
				used := float64(cpuAfter-cpu) - alone*float64(time.Since(began))
				b.ReportMetric(used/1e3/float64(n), "server-µs/refusal")
				b.ReportMetric(100*float64(n)/float64(calls.Load()-beganAll), "%-refused")
			}
		})
	}
}

// startRefusing starts the server, and returns what tells its CPU time in ns and its refusals.
func startRefusing(b *testing.B) (usage func() (cpu, refused int64), address string) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestServeForRefusals$")
	cmd.Env = append(os.Environ(), refusingServer+"=yes")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	out := bufio.NewScanner(pipe)
	next := func() string {
		if !out.Scan() {
			b.Fatal("the server has ended")
		}
		return out.Text()
	}
	address = next()
	return func() (cpu, refused int64) {
		if _, err := fmt.Fprintln(in); err != nil {
			b.Fatal(err)
		}
		if _, err := fmt.Sscan(next(), &cpu, &refused); err != nil {
			b.Fatal(err)
		}
		return cpu, refused
	}, address
}
