package dns

import (
	"context"
	"errors"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Parallel tests wait most of the time, so the limit does not depend on the number of
	// processors.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// mustParse parses a valid target.
func mustParse(t testing.TB, s string) registry.Target {
	t.Helper()
	target, err := registry.ParseTarget(s)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// ids returns the IDs in order, separated by spaces.
func ids(list []tandem.Instance) string {
	var s []string
	for _, in := range list {
		s = append(s, in.ID)
	}
	slices.Sort(s)
	return strings.Join(s, " ")
}

// first returns the first snapshot of a target, or Watch's early error.
func first(t *testing.T, r registry.Resolver, target string) (registry.Snapshot, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var got registry.Snapshot
	err := r.Watch(ctx, mustParse(t, target), func(s registry.Snapshot) {
		got = s
		cancel()
	})
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return got, err
}
