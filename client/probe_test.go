package client_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
	"github.com/tandem-rpc/tandem/resilience"
)

// frost is a network on which servers can be frozen: they accept connections and data, and
// nothing comes back until they thaw. "a" stands for a server, "a#1" for the first connection
// to it.
type frost struct {
	tandem.Transport

	mu     sync.Mutex
	frozen map[string]chan struct{} // closed when it thaws
	dials  map[string]int
	sent   map[string][]time.Time // when something was sent there
}

func newFrost(network tandem.Transport) *frost {
	return &frost{
		Transport: network, frozen: map[string]chan struct{}{}, dials: map[string]int{}, sent: map[string][]time.Time{},
	}
}

func (f *frost) freeze(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frozen[address] = make(chan struct{})
}

func (f *frost) thaw(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.frozen[address])
	delete(f.frozen, address)
}

func (f *frost) dialed(address string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dials[address]
}

func (f *frost) Dial(ctx context.Context, address string) (net.Conn, error) {
	server, err := f.Transport.Dial(ctx, address)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	f.dials[address]++
	name := fmt.Sprint(address, "#", f.dials[address])
	f.mu.Unlock()
	client, relay := net.Pipe()
	left := make(chan struct{}) // closed when the client has closed its end
	go func() {
		defer close(left)
		defer server.Close()
		f.copy(server, relay, func() { f.note(address) })
	}()
	go func() {
		defer relay.Close()
		f.copy(relay, server, func() { f.wait(address, left); f.wait(name, left) })
	}()
	return client, nil
}

// copy calls before for every piece of data.
func (f *frost) copy(to io.Writer, from io.Reader, before func()) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			before()
			_, _ = to.Write(buf[:n]) // if it fails the other direction ends
		}
		if err != nil {
			return
		}
	}
}

func (f *frost) note(address string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent[address] = append(f.sent[address], time.Now())
}

// pings returns when data was sent to the servers since the last call of pings.
func (f *frost) pings() map[string][]time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	sent := f.sent
	f.sent = map[string][]time.Time{}
	return sent
}

func (f *frost) wait(address string, left <-chan struct{}) {
	f.mu.Lock()
	thawed := f.frozen[address]
	f.mu.Unlock()
	if thawed == nil {
		return
	}
	select {
	case <-thawed:
	case <-left:
	}
}

const (
	checked   = 10 * time.Second                                     // the default interval of health checks
	foundOut  = checked + checked/8 + 1400*time.Millisecond          // the time in which it promises to find a silent server
	seenAgain = 1400*time.Millisecond + checked/16                   // after an answer
	connected = 10*time.Second + 3*time.Second + 10*time.Millisecond // after the longest dial and pause
)

// inFrost runs f in virtual time with n servers that can be frozen, and an idle client of them
// with a round robin.
func inFrost(t *testing.T, n int, f func(t *testing.T, network *frost, cl *cluster, c *client.Client), opts ...client.Option) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, n, func(_ context.Context, at string) (string, error) { return at, nil })
		network := newFrost(cl.network)
		c := dial(t, "static://"+strings.Join(cl.names, ",")+"?transport=mem",
			append(opts, client.WithBalancer(balance.RoundRobin()), client.WithTransport("mem", network))...)
		synctest.Wait()
		f(t, network, cl, c)
	})
}

// known returns what a client knows of the first server.
func known(c *client.Client) client.InstanceState {
	return c.Describe("Test.Do").Attempts[0].Instances[0]
}

// untilKnown returns how long it took, in virtual time, until so was true.
func untilKnown(t *testing.T, c *client.Client, so func(client.InstanceState) bool) time.Duration {
	t.Helper()
	for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if took := time.Since(start); so(known(c)) || took > time.Minute {
			return took
		}
	}
}

func suspected(in client.InstanceState) bool { return in.Suspect != "" }
func trusted(in client.InstanceState) bool   { return in.Suspect == "" && in.Unusable == "" }

// burst makes calls and returns how long they took together.
func burst(t *testing.T, c *client.Client, calls int) time.Duration {
	t.Helper()
	start := time.Now()
	for range calls {
		if err := c.Call(t.Context(), "Test.Do", "", nil); err != nil {
			t.Error(err)
		}
	}
	return time.Since(start)
}

// A server that freezes while it gets no calls is found before the next call. It is used again
// when it answers, on the same connection.
func TestSilentServerIsFoundBeforeACall(t *testing.T) {
	inFrost(t, 2, func(t *testing.T, network *frost, cl *cluster, c *client.Client) {
		for range 20 {
			time.Sleep(time.Minute)
			network.freeze("a")
			if took := untilKnown(t, c, suspected); took > foundOut {
				t.Fatalf("found after %v, want %v at most", took, foundOut)
			}
			before := cl.at("a")
			if took := burst(t, c, 100); cl.at("a") != before || took > 0 {
				t.Fatalf("%d of 100 calls met the silent one, they took %v", cl.at("a")-before, took)
			}
			if in := known(c); in.Suspect != "it does not answer pings" || in.Unusable != "suspect: it does not answer pings" {
				t.Fatalf("described as %+v", in)
			}
			network.thaw("a")
			if took := untilKnown(t, c, trusted); took > seenAgain {
				t.Fatalf("trusted again after %v, want %v at most", took, seenAgain)
			}
			burst(t, c, 100)
			if cl.at("a") != before+50 {
				t.Fatalf("it gets %d of 100 calls when it answers again", cl.at("a")-before)
			}
		}
		if n := network.dialed("a"); n != 1 {
			t.Errorf("%d connections, want the first to be kept", n)
		}
	})
}

// The client reconnects to a server that stays silent; until that succeeds the server is a
// suspect.
func TestClientReconnectsToSuspect(t *testing.T) {
	inFrost(t, 2, func(t *testing.T, network *frost, cl *cluster, c *client.Client) {
		network.freeze("a")
		time.Sleep(2 * time.Minute)
		if in := known(c); in.Suspect == "" || in.Unusable != "not connected" || network.dialed("a") < 5 {
			t.Errorf("after two minutes: %+v, dialed %d times", in, network.dialed("a"))
		}
		if took := burst(t, c, 100); cl.at("a") != 0 || took > 0 {
			t.Errorf("%d of 100 calls met the silent one, they took %v", cl.at("a"), took)
		}
		network.thaw("a")
		if took := untilKnown(t, c, trusted); took > connected {
			t.Errorf("trusted again after %v, want %v at most", took, connected)
		}
		burst(t, c, 100)
		if n := cl.at("a"); n != 50 {
			t.Errorf("it gets %d of 100 calls when it is connected", n)
		}
	})
}

// Of two connections to an instance one is dead, as when a firewall has dropped it: calls take
// the other, and the instance is no suspect.
func TestOneDeadConnectionIsNoSuspect(t *testing.T) {
	log := make(records, 100)
	inFrost(t, 1, func(t *testing.T, network *frost, _ *cluster, c *client.Client) {
		network.freeze("a#1")
		for found := false; !found; time.Sleep(10 * time.Millisecond) {
			for len(log) > 0 { // it is of no bubble: waiting for it would stop the clock
				found = (<-log).Message == "connection is silent: no answer to a ping" || found
			}
		}
		if took := burst(t, c, 100); took > 0 {
			t.Errorf("100 calls took %v", took)
		}
		if in := known(c); in.Suspect != "" || in.Unusable != "" {
			t.Errorf("with one of two connections dead: %+v", in)
		}
		time.Sleep(session.DefaultSilence + foundOut)
		if n := network.dialed("a"); n != 3 {
			t.Errorf("%d connections were made, want one more than two", n)
		}
	}, client.WithConnections(client.Connections{PerInstance: 2}), client.WithLogger(slog.New(log)))
}

// Silent servers get no call while one answers, however many they are: the panic threshold
// applies to those that fail.
func TestSilentServersAndThePanicThreshold(t *testing.T) {
	half := client.WithEjection(&client.Ejection{Outliers: resilience.OutlierConfig{MaxShare: 0.5}})
	for name, opt := range map[string]client.Option{"half": half, "no ejection": client.WithEjection(nil)} {
		for _, frozen := range []int{2, 3} {
			t.Run(fmt.Sprint(name, ", ", frozen, " of 4"), func(t *testing.T) {
				inFrost(t, 4, func(t *testing.T, network *frost, cl *cluster, c *client.Client) {
					for _, address := range cl.names[:frozen] {
						network.freeze(address)
					}
					for silent := 0; silent < frozen; time.Sleep(10 * time.Millisecond) {
						silent = 0
						for _, in := range c.Describe("Test.Do").Attempts[0].Instances {
							if suspected(in) {
								silent++
							}
						}
					}
					for range 100 {
						_ = c.Notify(t.Context(), "Test.Do", "") // one-way: it waits for no answer
					}
					synctest.Wait()
					if met := cl.total() - cl.at("d") - (4-frozen-1)*cl.at("c"); met > 0 {
						t.Errorf("%d of 100 calls met those that are silent", met)
					}
				}, opt)
			})
		}
	}
}

// If there is no other instance, a suspect gets the call.
func TestOnlySuspectGetsCalls(t *testing.T) {
	inFrost(t, 1, func(t *testing.T, network *frost, cl *cluster, c *client.Client) {
		network.freeze("a")
		untilKnown(t, c, suspected)
		time.AfterFunc(time.Second, func() { network.thaw("a") })
		if took := burst(t, c, 1); took != time.Second || cl.at("a") != 1 {
			t.Errorf("answered after %v by the only server, want 1 s", took)
		}
	})
}

// There are few pings, and those of many connections are sent together.
func TestPingsAreFewAndTogether(t *testing.T) {
	manyCalls(t)
	const idle = 10 * time.Minute
	for interval, want := range map[time.Duration][2]int{checked: {60, 120}, -1: {0, 0}} {
		inFrost(t, 26, func(t *testing.T, network *frost, _ *cluster, _ *client.Client) {
			network.pings() // drops those of connecting
			time.Sleep(idle)
			rounds := map[time.Time]bool{}
			pings := network.pings()
			for address, at := range pings {
				if n := len(at); n < want[0] || n > want[1] {
					t.Errorf("%d pings to %s in %v, want %d to %d", n, address, idle, want[0], want[1])
				}
				for _, when := range at {
					rounds[when] = true
				}
			}
			if most := 16 * int(idle/checked); len(rounds) > most || interval > 0 && len(pings) != 26 {
				t.Errorf("%d servers were pinged at %d instants, want %d at most", len(pings), len(rounds), most)
			}
		}, client.WithConnections(client.Connections{HealthCheck: interval}))
	}
}

// Instances that the registry has lost are suspects too, and are kept while they answer pings.
func TestLostByTheRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cl := newCluster(t, 4, func(_ context.Context, at string) (string, error) { return at, nil })
		network, members := newFrost(cl.network), make(script)
		c := dial(t, "script://x", client.WithTransport("mem", network), client.WithResolver("script", members))
		members <- registry.Snapshot{Instances: []tandem.Instance{at("a"), at("b"), at("c"), at("d")}, Revision: 1}
		synctest.Wait()
		members <- registry.Snapshot{Instances: []tandem.Instance{at("d")}, Revision: 2}
		synctest.Wait()
		if in := known(c); in.Suspect != "the registry has lost it" || in.Unusable != "" {
			t.Errorf("an instance that answers is lost by the registry: %+v", in)
		}
		network.freeze("a")
		time.Sleep(2 * adapter.DefaultGrace)
		var left []string
		for _, in := range c.Describe("Test.Do").Attempts[0].Instances {
			left = append(left, in.ID)
		}
		if fmt.Sprint(left) != "[b c d]" {
			t.Errorf("left are %q, want those that answer", left)
		}
	})
}
