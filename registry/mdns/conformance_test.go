//go:build integration

package mdns

import (
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

func TestConformance(t *testing.T) {
	registrytest.Run(t, func(t testing.TB) registrytest.Harness {
		const target = "mdns://mdns0/prod/Arith?ttl=2s"
		r, err := New(target)
		if err != nil {
			t.Fatal(err)
		}
		return registrytest.Harness{
			Registrar: r,
			Resolver:  Resolver(),
			Target:    mustParse(t, target),
			// A recreated interface has lost its memberships of the multicast group.
			Lose: func(string) error {
				run("ip link del mdns0")
				makeInterface()
				return nil
			},
			Outage: func() (func() error, error) {
				run("ip link set mdns0 down")
				return func() error { run("ip link set mdns0 up"); return nil }, nil
			},
			Within: 15 * time.Second,
		}
	})
}
