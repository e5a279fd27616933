package accesslog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/plugin/accesslog"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// The log goes to the terminal by slog, without values that differ from run to run. For files
// accesslog.To is faster.
func Example() {
	leaveOut := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "took" || a.Key == "peer" {
			return slog.Attr{}
		}
		return a
	}
	log := accesslog.New(accesslog.ToLogger(slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: leaveOut}))))
	srv := server.New(server.WithPlugins(log))
	_ = srv.RegisterFunc("Door.Knock", func(times int) (string, error) {
		if times == 0 {
			return "", errors.New("nobody knocked")
		}
		return "come in", nil
	})
	network := transport.NewMemory()
	ln, _ := network.Listen(context.Background(), "door")
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, _ := client.Dial("mem://door", client.WithTransport("mem", network))
	for times := range 2 {
		_ = c.Call(context.Background(), "Door.Knock", times, nil)
	}
	fmt.Println(c.Close(), srv.Close(), log.Close())
	<-served
	// Output:
	// level=ERROR msg=call side=server method=Door.Knock protocol=tandem code=unknown error="nobody knocked"
	// level=INFO msg=call side=server method=Door.Knock protocol=tandem code=ok
	// <nil> <nil> <nil>
}
