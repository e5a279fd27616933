package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// A server without methods logs that calls will fail.
func TestNoMethodsIsLogged(t *testing.T) {
	for name, register := range map[string]bool{"none": false, "one": true} {
		var log bytes.Buffer
		srv := server.New(server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		if register {
			if err := srv.RegisterFunc("Test.Nop", func() {}); err != nil {
				t.Fatal(err)
			}
		}
		ln, err := transport.NewMemory().Listen(context.Background(), "a")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- srv.ServeListener(ln) }()
		for len(srv.Addrs()) == 0 {
			runtime.Gosched()
		}
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
		<-served
		if got := strings.Contains(log.String(), "has no methods"); got == register {
			t.Errorf("%s: logged %v: %s", name, got, &log)
		}
	}
}
