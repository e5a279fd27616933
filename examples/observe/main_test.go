package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// docs/howto/observe.md shows the program as it is, from its imports on.
func TestGuideShowsTheProgram(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../docs/howto/observe.md")
	if err != nil {
		t.Fatal(err)
	}
	_, code, _ := strings.Cut(string(program), "package main\n\n")
	if !strings.Contains(string(guide), "```go fragment\n"+code+"```\n") {
		t.Error("docs/howto/observe.md does not show examples/observe/main.go as it is")
	}
}

// The program runs, and a scrape has metrics of the server and the client.
func TestProgram(t *testing.T) {
	scraped := fmt.Sprintf("127.0.0.1:%d", registrytest.FreePort(t))
	go func() { t.Error(run(fmt.Sprintf("127.0.0.1:%d", registrytest.FreePort(t)), scraped)) }()
	want := []string{`rpc_server_call_duration_seconds_count{rpc_method="Math.Half"`, `rpc_client_call_attempts_total{rpc_method="Math.Half"`, "tandem_client_connections", "tandem_server_connections"}
	text := ""
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // until the program has begun
		if text = scrape(scraped); containsAll(text, want) {
			return
		}
	}
	t.Errorf("not all of %q in %s", want, text)
}

func scrape(address string) string {
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	return fmt.Sprintf("%s%v", text, err)
}

func containsAll(text string, want []string) bool {
	for _, w := range want {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
