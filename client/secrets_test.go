package client_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/registry/registrytest"
	"github.com/tandem-rpc/tandem/transport"
)

// Neither errors nor explanations of a client contain secrets of its target.
func TestTargetsHideSecrets(t *testing.T) {
	for _, scheme := range []string{"tcp", "mem", "static", "dns", "file", "etcd", "redis", "grpc", "tls"} {
		registrytest.HidesSecrets(t, scheme, func(target string) error {
			c, err := client.Dial(target, client.WithTransport("mem", transport.NewMemory()), client.WithTimeout(10*time.Millisecond))
			if err != nil {
				return err
			}
			defer c.Close()
			var e client.Explanation
			err = c.Call(t.Context(), "S.M", "x", nil, client.Explain(&e))
			if strings.Contains(e.Target, "canary") {
				t.Errorf("it explains calls at %q", e.Target)
			}
			return err
		})
	}
}
