package client_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/transport"
)

// Dial refuses targets that can never work.
func TestDialRefusesTargets(t *testing.T) {
	mem := client.WithTransport("mem", transport.NewMemory())
	for target, reason := range map[string]string{
		"":                                  "want scheme://address",
		"nowhere://x":                       "no resolver",
		"localhost":                         "missing port",
		"tcp://localhost":                   "missing port",
		"tcp://a:1?protcol=x":               "unknown option",
		"unix:///run/a?protcol=x":           "unknown option",
		"static://a:1,a:1":                  "named twice",
		"static://a:1,b:2?weight=1":         "1 weights for 2 addresses",
		"dns://x":                           "missing port",
		"dns://x:1?interval=1":              "bad interval",
		"file:///run/a?poll=1s":             "unknown option",
		"mem://" + strings.Repeat("a", 600): "limit 512",
	} {
		c, err := client.Dial(target, mem)
		if c != nil || tandem.CodeOf(err) != tandem.InvalidArgument || tandem.MayHaveExecuted(err) || !strings.Contains(err.Error(), reason) {
			t.Errorf("%.40q: %v, want %q", target, err, reason)
		}
	}
}

// At the debug level the log has which connections ended, and why.
func TestEndOfConnectionIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, r := transport.NewMemory(), make(records, 100)
		srv, _ := serveOn(t, mem, "a", methods)
		c := dial(t, "mem://a", client.WithTransport("mem", mem), client.WithLogger(slog.New(r)))
		if err := c.Call(t.Context(), "Arith.Mul", &Args{1, 2}, nil); err != nil {
			t.Fatal(err)
		}
		srv.Close()
		synctest.Wait()
		for len(r) > 0 {
			rec := <-r
			if rec.Message != "connection ended" {
				continue
			}
			said := map[string]string{}
			rec.Attrs(func(a slog.Attr) bool { said[a.Key] = a.Value.String(); return true })
			if rec.Level != slog.LevelDebug || said["peer"] != "a" || said["reason"] == "" {
				t.Errorf("%v: %v", rec.Level, said)
			}
			return
		}
		t.Error("not logged")
	})
}
