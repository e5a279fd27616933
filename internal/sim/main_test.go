package sim

import (
	"os"
	"runtime/debug"
	"testing"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // a scenario makes much garbage, and keeps little
	os.Exit(m.Run())
}
