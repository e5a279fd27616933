package registry

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mustParse parses a valid target.
func mustParse(t testing.TB, s string) Target {
	t.Helper()
	target, err := ParseTarget(s)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// first returns the first snapshot of a target, or Watch's early error.
func first(t *testing.T, r Resolver, target string) (Snapshot, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var got Snapshot
	err := r.Watch(ctx, mustParse(t, target), func(s Snapshot) {
		got = s
		cancel()
	})
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return got, err
}
