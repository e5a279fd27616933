package pool

import (
	"context"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/internal/rules"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/registry/adapter"
	"github.com/tandem-rpc/tandem/resilience"
	"github.com/tandem-rpc/tandem/wire"
)

// silentServer connects to a server that sends its preface and then nothing.
func silentServer(ctx context.Context, client, server *session.Env, instance string) (*Conn, error) {
	here, there := net.Pipe()
	go func() {
		if _, _, err := server.Accept(ctx, there, nil, nil); err == nil {
			_, _ = io.Copy(io.Discard, there) // until the client leaves
		}
	}()
	s, err := client.Connect(ctx, here, instance)
	if err != nil {
		return nil, err
	}
	return OwnConn(s), nil
}

// A late round marks no connection as suspect: what was not received while the process was
// suspended says nothing. The next round does.
func TestLateRoundGivesNoVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := session.Config{Settings: wire.DefaultSettings()}
		client, server := session.NewEnv(config), session.NewEnv(config)
		var current atomic.Pointer[rules.Rules]
		current.Store(rules.New(&rules.Base{Balancer: balance.RoundRobin()}, nil, ""))
		life := NewLife()
		var p Pool
		p.Init(Config{
			Target: "a", Life: life, Log: slog.New(slog.DiscardHandler), Rules: &current, Budget: resilience.NewBudget(0, 0, time.Now()),
			Serves: func(tandem.Endpoint) bool { return true },
			Connect: func(ctx context.Context, instance string, _ tandem.Endpoint) (*Conn, error) {
				return silentServer(ctx, client, server, instance)
			},
			Connections: 1, ConnectTimeout: time.Second, Silence: session.DefaultSilence,
		})
		p.Update(adapter.View{Instances: []tandem.Instance{{ID: "a", Endpoints: []tandem.Endpoint{{Transport: "mem", Address: "a"}}}}})
		synctest.Wait()
		rounds := prober{pool: &p, interval: time.Second}
		suspicion := func(late bool) string {
			rounds.round(time.Now(), late)
			v := p.view.Load()
			return p.suspicion(v, v.nodes[0])
		}
		suspicion(false) // it gets to know the connection
		time.Sleep(time.Second)
		suspicion(false) // and pings
		for range 3 {
			time.Sleep(2 * LeastPingTimeout)
			if why := suspicion(true); why != "" {
				t.Errorf("in a round that comes late: %q", why)
			}
		}
		time.Sleep(LeastPingTimeout)
		if suspicion(false) == "" {
			t.Error("no suspect in a round that is in time")
		}
		life.Cancel()
		p.Close()
		life.End()
		if !client.Close(time.Second) || !server.Close(time.Second) {
			t.Error("sessions do not end")
		}
	})
}
