package redis

import (
	"testing"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// TestHidesSecrets: no error repeats parts of a target that may be secret.
func TestHidesSecrets(t *testing.T) {
	registrytest.HidesSecrets(t, "redis", func(target string) error {
		r, err := New(target)
		if err != nil {
			return err
		}
		return r.Close()
	})
}
