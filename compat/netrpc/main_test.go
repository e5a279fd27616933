package rpc_test

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	rpc "github.com/tandem-rpc/tandem/compat/netrpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(closing{m}) }

// closing sets up the DefaultServer, once for all runs, and closes it after the tests.
type closing struct{ *testing.M }

func (c closing) Run() int {
	if err := errors.Join(rpc.Register(Arith{}), rpc.RegisterName("Sums", Arith{})); err != nil {
		panic(err)
	}
	rpc.HandleHTTP()
	defer rpc.DefaultServer.Core().Close()
	return c.M.Run()
}
