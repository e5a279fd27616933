//go:build linux

package silence

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
)

const (
	silence = 2 * time.Second // the shortest that is allowed
	// latest is when a silent peer is given up at the latest: it is pinged after half a second,
	// and looked at every half second.
	latest = silence + 2500*time.Millisecond
	slack  = 50 * time.Millisecond // a ping may have been on its way when the network broke
)

// waiting has a channel for each handler of Wait, which it closes when its context has ended.
var waiting sync.Map //nolint:gochecknoglobals // the handlers of this process have nothing else in common

// outcome is how a call ended.
type outcome struct {
	err          error
	begun, ended time.Time
}

// call makes a call without a deadline of its own, or with one.
func call(t *testing.T, c *client.Client, own time.Duration, method string, request any) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		ctx := t.Context()
		if own > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, own)
			defer cancel()
		}
		begun := time.Now()
		var answer int
		err := c.Call(ctx, method, request, &answer)
		done <- outcome{err, begun, time.Now()}
	}()
	return done
}

// isGivenUp checks that a call ended because the peer has been silent since a time.
func isGivenUp(t *testing.T, what string, call <-chan outcome, since time.Time) {
	t.Helper()
	select {
	case o := <-call:
		took := o.ended.Sub(since)
		if tandem.CodeOf(o.err) != tandem.Unavailable || !strings.Contains(o.err.Error(), "silent") || took < silence-slack || took > latest {
			t.Errorf("%s: %v after %v, want Unavailable, silent, after %v to %v", what, o.err, took, silence, latest)
		}
	case <-time.After(4 * latest):
		t.Errorf("%s has not ended", what)
	}
}

// A process is stopped for longer than silence. Where its host acknowledges what is written, a
// call with a deadline of its own waits, and is answered when the process goes on; a call
// without ends. Over UDP the process itself acknowledges, so both end.
func TestProcessIsStopped(t *testing.T) {
	for _, tc := range []struct {
		network string
		waits   bool
	}{
		{"plain", true}, {"tls", true}, {"unix", true}, {"websocket", true}, {"nbio", true}, {"nbio-unix", true},
		{"quic", false}, {"kcp", false},
	} {
		t.Run(tc.network, func(t *testing.T) {
			t.Parallel()
			process, address := start(t, tc.network)
			c := dial(t, tc.network, address)
			if o := <-call(t, c, 10*time.Second, "Echo", 1); o.err != nil {
				t.Fatal(o.err)
			}
			stop(t, process)
			stopped := time.Now()
			resume := time.AfterFunc(silence+4*time.Second, func() { signal(t, process, syscall.SIGCONT) })
			defer resume.Stop()
			usual, own := call(t, c, 0, "Echo", 2), call(t, c, 15*time.Second, "Echo", 3)
			isGivenUp(t, "a call without a deadline of its own", usual, stopped)
			if !tc.waits {
				isGivenUp(t, "a call with a deadline of its own", own, stopped)
			} else if o := <-own; o.err != nil || o.ended.Sub(o.begun) < silence+3*time.Second {
				t.Errorf("a call with a deadline of its own: %v after %v", o.err, o.ended.Sub(o.begun))
			}
			var last error
			for end := time.Now().Add(15 * time.Second); time.Now().Before(end); {
				if last = (<-call(t, c, 10*time.Second, "Echo", 4)).err; last == nil {
					return
				}
			}
			t.Errorf("after the process went on: %v", last)
		})
	}
}

func signal(t *testing.T, process *exec.Cmd, s os.Signal) {
	if err := process.Process.Signal(s); err != nil {
		t.Errorf("%v: %v", s, err)
	}
}

// stop stops a process, and waits until the kernel has.
func stop(t *testing.T, process *exec.Cmd) {
	t.Helper()
	signal(t, process, syscall.SIGSTOP)
	for end := time.Now().Add(10 * time.Second); ; {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process.Process.Pid))
		if err != nil || time.Now().After(end) {
			t.Fatalf("the process is not stopped: %s, %v", stat, err)
		}
		if _, after, _ := strings.Cut(string(stat), ") "); strings.HasPrefix(after, "T") {
			return
		}
	}
}

// insideEnv is the environment variable of the process that may break its network.
const insideEnv = "SILENCE_INSIDE"

// The network drops all packets. Every transport notices on both sides: calls end, and the
// contexts of the server's methods too.
func TestNetworkDropsEverything(t *testing.T) {
	if os.Getenv(insideEnv) == "" { // in a network of its own, which ends with the process
		cmd := exec.CommandContext(t.Context(), "unshare", "--map-root-user", "--net", "sh", "-c",
			`ip link set lo up && exec "$0" -test.run='^TestNetworkDropsEverything$' -test.v`, os.Args[0])
		cmd.Env = append(os.Environ(), insideEnv+"=1")
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Fatalf("%v; it needs unshare, ip and nft, and the right to have a network of its own", err)
		}
		return
	}
	type pair struct {
		network    string
		usual, own <-chan outcome
		ended      chan struct{}
	}
	var pairs []pair
	for _, network := range []string{"plain", "tls", "websocket", "nbio", "quic", "kcp"} {
		address, end, err := newServer(network)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(end)
		c := dial(t, network, address)
		if o := <-call(t, c, 10*time.Second, "Echo", 1); o.err != nil {
			t.Fatalf("%s: %v", network, o.err)
		}
		ended := make(chan struct{})
		waiting.Store(network, ended)
		pairs = append(pairs, pair{network, call(t, c, 0, "Wait", waitRequest{}), call(t, c, 15*time.Second, "Wait", waitRequest{network}), ended})
	}
	time.Sleep(300 * time.Millisecond) // until the servers have the calls
	nft := func(args ...string) {
		t.Helper()
		if out, err := exec.CommandContext(context.Background(), "nft", args...).CombinedOutput(); err != nil {
			t.Fatalf("nft %v: %v\n%s", args, err, out)
		}
	}
	nft("add", "table", "inet", "hole")
	nft("add", "chain", "inet", "hole", "input", "{ type filter hook input priority 0; policy drop; }")
	t.Cleanup(func() { nft("delete", "table", "inet", "hole") }) // so that connections close in both directions
	broken := time.Now()
	for _, p := range pairs {
		isGivenUp(t, p.network+", a call without a deadline of its own", p.usual, broken)
		isGivenUp(t, p.network+", a call with a deadline of its own", p.own, broken)
	}
	for _, p := range pairs {
		select {
		case <-p.ended:
		case <-time.After(time.Until(broken.Add(2 * latest))):
			t.Errorf("%s: the server's method still runs %v after the network broke", p.network, time.Since(broken))
		}
	}
}
