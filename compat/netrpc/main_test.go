package rpc_test

import (
	"testing"

	"go.uber.org/goleak"

	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(closing{m}) }

// closing runs the tests and ends the server of the process, which no program does.
type closing struct{ *testing.M }

func (c closing) Run() int {
	defer rpc.DefaultServer.Core().Close()
	return c.M.Run()
}
