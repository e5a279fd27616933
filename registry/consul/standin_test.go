//go:build !integration

package consul

import (
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// TestStandInConformance does not run with the tag integration, where TestConformance
// runs the suite with a real agent.
func TestStandInConformance(t *testing.T) {
	registrytest.Run(t, func(t testing.TB) registrytest.Harness {
		agent := newStandIn(t)
		relay := newRelay(t, agent.Listener.Addr().String())
		ttl := "3s"
		if strings.HasSuffix(t.Name(), "/many_instances") {
			ttl = "1m" // with 3s, 200 checks a second take too much of a busy machine
		}
		target := "consul://" + relay.addr + "/base/Arith?ttl=" + ttl
		r := open(t, target)
		return registrytest.Harness{
			Registrar: r,
			Resolver:  struct{ registry.Resolver }{Resolver()}, // hides the documents, which the stand-in has not
			Target:    must(registry.ParseTarget(target)),
			Lose:      func(id string) error { agent.lose(r.own.serviceID(id)); return nil },
			Outage:    func() (func() error, error) { relay.cut(); return relay.restore, nil },
			Within:    20 * time.Second,
		}
	})
}
