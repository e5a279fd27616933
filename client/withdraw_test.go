package client_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/transport"
)

// A client that is closed is not counted among those that have applied a document; one that still
// runs is.
func TestClosedClientsAreNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := registry.NewMemory()
		r.PutDocument("/policies/shop", []byte(`{"version":"1"}`))
		source := policy.FromRegistry(r, "/policies/shop")
		applied := func(want int) {
			t.Helper()
			list, err := source.(policy.Reports).Applied(t.Context())
			if err != nil || len(list) != want {
				t.Errorf("%d clients have applied it, want %d: %+v, %v", len(list), want, list, err)
			}
		}
		var clients []*client.Client
		for _, name := range []string{"short", "long"} {
			c, err := client.Dial("static://a?transport=mem", client.WithTransport("mem", transport.NewMemory()), client.WithPolicyFrom(source, name))
			if err != nil {
				t.Fatal(err)
			}
			clients = append(clients, c)
		}
		time.Sleep(time.Second) // they report within it
		applied(2)
		began := time.Now()
		if err := clients[0].Close(); err != nil || time.Since(began) > 0 {
			t.Errorf("closed after %v: %v", time.Since(began), err)
		}
		applied(1)
		if err := clients[1].Close(); err != nil {
			t.Error(err)
		}
		applied(0)
	})
}
