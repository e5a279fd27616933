//go:build integration

package registries

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestDemo runs tandem's demo with each registry: servers are killed, started again,
// drained and added under load, and no call may fail.
func TestDemo(t *testing.T) {
	tandem := buildTandem(t)
	for name, start := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := start(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			out, err := exec.CommandContext(ctx, tandem, "demo", "--plain", "--duration", "8s", "--rate", "200", "--registry", b.target).CombinedOutput()
			said := string(out)
			if err != nil || !strings.Contains(said, "\nPASS") {
				t.Errorf("the demo with %s: %v\n%s", b.target, err, said)
			}
			for _, event := range []string{"kill s", "restart s", "drain s", "add s4"} {
				if !strings.Contains(said, event) {
					t.Errorf("no %q in\n%s", event, said)
				}
			}
		})
	}
}
