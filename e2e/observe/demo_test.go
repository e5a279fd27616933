//go:build integration

package observe

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestDemo runs tandem demo --observe: its Prometheus sees the servers, the client, and that a
// server is killed; it ends with the demo.
func TestDemo(t *testing.T) {
	tandem := filepath.Join(t.TempDir(), "tandem")
	build := exec.Command("go", "build", "-o", tandem, ".")
	build.Dir = filepath.Join("..", "..", "cmd", "tandem")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	program(t, "prometheus")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	demo := exec.CommandContext(ctx, tandem, "demo", "--observe", "--plain", "--duration", "10s", "--rate", "200")
	out, err := demo.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	demo.Stderr = demo.Stdout
	if err := demo.Start(); err != nil {
		t.Fatal(err)
	}
	lines, address := bufio.NewReader(out), ""
	for address == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err, demo.Wait())
		}
		if at := regexp.MustCompile(`^Prometheus is at (\S+) until`).FindStringSubmatch(line); at != nil {
			address = at[1]
		}
	}
	rest := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(lines)
		rest <- string(text)
	}()
	p := &prometheusServer{t: t, url: address}
	// One is killed and one drained within six seconds: all three need not answer in the same second.
	for what, expr := range map[string]string{
		"a server is down":            `up == 0`,
		"three servers have answered": `count(count by (instance) (max_over_time(rpc_server_call_duration_seconds_count{rpc_method="Ledger.Append"}[30s]) > 0)) >= 3`,
		"the client has connections":  `tandem_client_connections{instance="client"} >= 2`,
		"the alerts are loaded":       `ALERTS{alertname="TandemServerDown", alertstate="pending"}`,
	} {
		p.until(what, 20*time.Second, func() string {
			if result, err := p.query("max_over_time((" + expr + ")[30s:500ms])"); err != nil || len(result) == 0 {
				return expr
			}
			return ""
		})
	}
	said := <-rest
	if err := demo.Wait(); err != nil || !strings.Contains(said, "\nPASS") {
		t.Errorf("the demo: %v\n%s", err, said)
	}
	if r, err := http.Get(address); err == nil {
		_ = r.Body.Close()
		t.Errorf("Prometheus still answers at %s", address)
	}
}
