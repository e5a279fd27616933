//go:build linux

package admin

import (
	"context"
	"math"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
)

// BenchmarkCost compares the processor time of a call, on both sides together, with counting and
// without. The two take turns every 10,000 calls, so that the machine's changes affect both. The
// metrics are the mean of the pairs' ratios, in percent, and half of its 95 % interval.
func BenchmarkCost(b *testing.B) {
	calls := [...]func(){costOf(b, New()), costOf(b, nil)}
	for _, f := range calls {
		for range 50 {
			f()
		}
	}
	b.ResetTimer()
	var logs []float64
	for b.Loop() {
		var took [2]float64
		for _, i := range []int{0, 1, 1, 0} {
			before := cpu(b)
			calls[i]()
			took[i] += cpu(b) - before
		}
		logs = append(logs, math.Log(took[0]/took[1]))
	}
	mean, spread := 0.0, 0.0
	for _, l := range logs {
		mean += l / float64(len(logs))
	}
	for _, l := range logs {
		spread += (l - mean) * (l - mean)
	}
	b.ReportMetric(100*(math.Exp(mean)-1), "%-more-CPU")
	b.ReportMetric(196*math.Sqrt(spread)/float64(len(logs)), "±%")
}

func cpu(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// costOf returns a function that makes 10,000 calls by 100 callers, counted by a unless it is nil.
func costOf(b *testing.B, a *Admin) func() {
	var opts []server.Option
	if a != nil {
		opts = append(opts, server.WithPlugins(a))
	}
	srv := server.New(opts...)
	if a != nil {
		if err := a.Register(srv); err != nil {
			b.Fatal(err)
		}
	}
	if err := server.Handle(srv, "Shop.Buy", func(_ context.Context, o *[]byte) (*[]byte, error) { return o, nil }, server.MethodReuse()); err != nil {
		b.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- srv.ServeListener(ln) }()
	target := "tcp://" + ln.Addr().String()
	c, err := client.Dial(target, client.WithCodec(codec.Raw()))
	if a != nil {
		_ = c.Close()
		c, err = a.Dial(target, client.WithCodec(codec.Raw()))
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = c.Close()
		_ = srv.Close()
		<-done
	})
	message := make([]byte, 581)
	return func() {
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				reply := make([]byte, 0, 700)
				for range 100 {
					if err := c.Call(context.Background(), "Shop.Buy", &message, &reply); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}
