//go:build !integration

package consul

import (
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// TestStandInConformance is left out where the real agent takes the suite.
func TestStandInConformance(t *testing.T) {
	registrytest.Run(t, func(t testing.TB) registrytest.Harness {
		agent := newStandIn(t)
		relay := newRelay(t, agent.Listener.Addr().String())
		ttl := "3s"
		if strings.HasSuffix(t.Name(), "/many_instances") {
			ttl = "1m" // or checks, 200 a second, keep a busy machine from the rest
		}
		target := "consul://" + relay.addr + "/base/Arith?ttl=" + ttl
		r := open(t, target)
		return registrytest.Harness{
			Registrar: r,
			Resolver:  Resolver(),
			Target:    must(registry.ParseTarget(target)),
			Lose:      func(id string) error { agent.lose(r.own.serviceID(id)); return nil },
			Outage:    func() (func() error, error) { relay.cut(); return relay.restore, nil },
			Within:    20 * time.Second,
		}
	})
}
