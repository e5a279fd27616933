package zookeeper

import (
	"flag"
	"log/slog"
	"testing"

	"go.uber.org/goleak"
)

var discard = slog.New(slog.DiscardHandler)

func TestMain(m *testing.M) {
	// The tests with real servers wait for timeouts more than they compute.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}
