package registrytest_test

import (
	"context"
	"fmt"

	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// Tests use Run; a program that probes a live registry can go through the
// checks itself.
func ExampleChecks() {
	m := registry.NewMemory()
	h := registrytest.Harness{Registrar: m, Resolver: m}
	for _, c := range registrytest.Checks()[:3] {
		fmt.Println(c.Name+":", c.Run(context.Background(), h))
	}
	// Output:
	// an instance registered is seen: <nil>
	// metadata arrives as it was: <nil>
	// an update is seen: <nil>
}
