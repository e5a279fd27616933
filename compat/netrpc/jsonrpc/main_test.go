package jsonrpc_test

import (
	"testing"

	"go.uber.org/goleak"

	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(closing{m}) }

// closing runs the tests and closes the DefaultServer after them.
type closing struct{ *testing.M }

func (c closing) Run() int {
	if err := rpc.Register(Arith{}); err != nil {
		panic(err)
	}
	defer rpc.DefaultServer.Core().Close()
	return c.M.Run()
}
