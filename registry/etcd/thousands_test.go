//go:build integration && unix

package etcd

import (
	"bufio"
	"context"
	"flag"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

var long = flag.Bool("long", false, "run the tests that take longer")

// Two thousand registrations of one process, and a server that is restarted without its
// data, at once or after more than the time to live: all are listed again in time, and
// the writes are spread over several seconds. With the race detector the process is too
// slow for this test.
func TestThousandsComeBack(t *testing.T) {
	if !*long {
		t.Skip("takes a minute; -long runs it")
	}
	const n, ttl = 2000, 15 * time.Second
	s := startServer(t)
	r := s.open("/thousands?ttl=15s")
	e := look(t, r, registry.Target{})
	start := time.Now()
	ids := fill(t, r, n)
	e.sees(time.Minute, ids...)
	t.Logf("%d were registered after %v", n, time.Since(start))
	for _, outage := range []time.Duration{0, ttl + time.Second} {
		s.kill()
		s.empty()
		e.fails(8 * time.Second)
		time.Sleep(outage) // it is the length of an experiment with a real process
		ctx, cancel := context.WithCancel(t.Context())
		rates := make(chan []int, 1)
		go func() { rates <- s.writes(ctx) }()
		s.start()
		t.Logf("an outage of %v: %d were listed %v after the server was back", outage, n, e.sees(ttl+5*time.Second, ids...))
		cancel()
		writes, total := <-rates, 0
		for _, rate := range writes {
			total += rate
		}
		t.Logf("%d writes, of leases and keys, at most %d a second: %v", total, slices.Max(writes), writes)
		if slices.Max(writes) > total*6/10 {
			t.Errorf("of %d writes most come within one second: %v", total, writes)
		}
	}
	start = time.Now()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	t.Logf("closed after %v", time.Since(start))
}

// writes returns how many writes, of leases and keys, the server takes in each second
// from when it first answers.
func (s *server) writes(ctx context.Context) (rates []int) {
	var before int
	for ctx.Err() == nil && before == 0 { // the server itself makes the first writes when it starts
		before = s.applied()
		time.Sleep(10 * time.Millisecond) // it is another process
	}
	for ctx.Err() == nil {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		now := s.applied()
		rates = append(rates, now-before)
		before = now
	}
	return rates
}

// applied returns the server's number of applied writes, or 0 while it does not answer.
func (s *server) applied() int {
	resp, err := http.Get("http://" + s.client + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "etcd_server_proposals_applied_total "); ok {
			n, _ := strconv.ParseFloat(text, 64)
			return int(n)
		}
	}
	return 0
}
