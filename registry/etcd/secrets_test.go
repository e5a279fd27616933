package etcd

import (
	"testing"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// Text of a target that may be a secret appears in no error.
func TestHidesSecrets(t *testing.T) {
	registrytest.HidesSecrets(t, "etcd", func(target string) error {
		r, err := New(target)
		if err != nil {
			return err
		}
		return r.Close()
	})
}
