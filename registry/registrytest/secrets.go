package registrytest

import (
	"fmt"
	"strings"
	"testing"
)

// HidesSecrets calls open with targets of the scheme that contain a password or a token, and
// fails the test if an error of open contains it. open opens a registry at the target and
// closes it; it returns nil for a target that it accepts.
func HidesSecrets(t *testing.T, scheme string, open func(target string) error) {
	t.Helper()
	const canary = "canary"
	for _, form := range []string{
		"%s://user:canary@127.0.0.1:1/base/Service", "%s://canary@127.0.0.1:1/base/Service",
		"%s://user:canary@127.0.0.1/", "%s://user:can/canary@127.0.0.1:1/base/Service", "%s://user:can?canary@127.0.0.1:1/base/Service",
		"%s://127.0.0.1:1,user:canary@127.0.0.1:2/base/Service", "%s://127.0.0.1:1/base/Service?password=canary",
		"%s://127.0.0.1:1/base/Service?token=canary&ttl=soon", "%s://127.0.0.1:1?secret=canary", "%s://127.0.0.1:1/base/Service?password=canary%%zz",
	} {
		target := fmt.Sprintf(form, scheme)
		if err := open(target); err != nil && strings.Contains(err.Error(), canary) {
			t.Errorf("target %q: the error contains its secret: %v", target, err)
		}
	}
}
