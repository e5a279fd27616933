package client

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/wire"
)

// deaf is a network to one server that sends its preface and then nothing.
type deaf struct {
	tandem.Transport
	env *session.Env
}

func (d deaf) Dial(ctx context.Context, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	go func() {
		if _, _, err := d.env.Accept(ctx, there, nil); err == nil {
			_, _ = io.Copy(io.Discard, there) // until the client leaves
		}
	}()
	return here, nil
}

// A late round marks no connection as suspect: what was not received while the process was
// suspended says nothing. The next round does.
func TestLateRoundGivesNoVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := deaf{env: session.NewEnv(session.Config{Settings: wire.DefaultSettings()})}
		c, err := Dial("mem://a", WithTransport("mem", network), WithHealthCheck(0))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p := prober{pool: &c.pool, interval: time.Second}
		suspicion := func(late bool) string {
			p.round(time.Now(), late)
			v := c.pool.view.Load()
			return c.pool.suspicion(v, v.nodes[0])
		}
		suspicion(false) // it gets to know the connection
		time.Sleep(time.Second)
		suspicion(false) // and pings
		for range 3 {
			time.Sleep(2 * leastPingTimeout)
			if why := suspicion(true); why != "" {
				t.Errorf("in a round that comes late: %q", why)
			}
		}
		time.Sleep(leastPingTimeout)
		if suspicion(false) == "" {
			t.Error("no suspect in a round that is in time")
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}
