package recovery_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/recovery"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	panics := recovery.New(func(p recovery.Panic) {
		fmt.Println(p.Method, "panicked:", p.Value, strings.Contains(string(p.Stack), "recovery_test.go"))
	})
	fmt.Println(call(panics), panics.Count())
	// Output:
	// Bad.Method panicked: boom true
	// internal: method Bad.Method panicked 1
}

// If the function given to New panics itself, nothing changes for the caller.
func TestPanicInTheCallbackChangesNothing(t *testing.T) {
	p := recovery.New(func(recovery.Panic) { panic("again") })
	if err := call(p); tandem.CodeOf(err) != tandem.Internal || p.Count() != 1 {
		t.Errorf("got %v, %d", err, p.Count())
	}
	if err := call(recovery.New(nil)); tandem.CodeOf(err) != tandem.Internal {
		t.Errorf("got %v", err)
	}
}

// call calls a method that panics.
func call(plugin any) error {
	srv := server.New(server.WithPlugins(plugin), server.WithLogger(slog.New(slog.DiscardHandler)))
	_ = srv.RegisterFunc("Bad.Method", func() { panic("boom") })
	network := transport.NewMemory()
	ln, _ := network.Listen(context.Background(), "bad")
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, _ := client.Dial("mem://bad", client.WithTransport("mem", network))
	err := c.Call(context.Background(), "Bad.Method", tandem.Args{}, nil)
	_ = c.Close()
	_ = srv.Close()
	<-served
	return err
}
