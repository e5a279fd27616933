// Command tandem shows, serves and calls.
//
//	tandem demo                                     a cluster under load, while servers are killed
//	tandem serve --listen tcp://127.0.0.1:8972      the demo services
//	tandem call tcp://127.0.0.1:8972 Arith.Mul '{"A":7,"B":8}'
//	tandem bench --rate 500 tcp://127.0.0.1:8972 Arith.Mul '{"A":7,"B":8}'
//	tandem policy check policy.yaml                 check a policy and print it
//	tandem policy put policy.yaml etcd://h1:2379/shop/policies/orders
//	tandem instance disable etcd://h1:2379/shop/Cart cart-3
//	tandem registry watch etcd://h1:2379/shop/Cart  what changes there
//	tandem check etcd://h1:2379/shop/Cart           what is wrong
//	tandem proxy tcp://127.0.0.1:9000 tcp://h2:8972 what is said on connections
//	tandem repl etcd://h1:2379/shop/Cart            commands, a line each
//
// tandem help lists the commands and the exit codes. The scripts in testdata/script show every
// command at work.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process
	code := run(ctx, &shell{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:])
	stop()
	os.Exit(code)
}

// shell has the standard streams of a command.
type shell struct {
	in       io.Reader
	out, err io.Writer
}

// warnings returns a logger of what goes wrong while a command goes on.
func (sh *shell) warnings() *slog.Logger {
	return slog.New(slog.NewTextHandler(sh.err, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// run runs a command line and returns the exit code. The context of the command ends at the
// first SIGINT or SIGTERM.
func run(ctx context.Context, sh *shell, args []string) int {
	root := newRoot(sh)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !errors.Is(err, errShown) && !errors.As(err, new(checkError)) && !errors.As(err, new(replError)) {
		fmt.Fprintln(sh.err, "tandem:", listing.Printable(describe(err)))
	}
	return exitCode(err)
}
