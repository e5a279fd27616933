package mdns

import (
	"testing"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// No error has what may be a secret in a target.
func TestHidesSecrets(t *testing.T) {
	registrytest.HidesSecrets(t, "mdns", func(target string) error {
		r, err := New(target)
		if err != nil {
			return err
		}
		return r.Close()
	})
}
