package tandem_test

import (
	"testing"

	"go.uber.org/goleak"
)

// The examples start clients and servers.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
