//go:build integration

package thrift_test

import (
	"context"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A client that shares no code with Apache's: thriftpy2 0.7.1 for Python, which reads
// the interface itself.
func TestPython(t *testing.T) {
	if err := exec.Command("python3", "-c", "import thriftpy2").Run(); err != nil {
		t.Skip("python3 -m pip install thriftpy2==0.7.1")
	}
	for kind, service := range map[string]any{
		"generated": &office{notes: make(chan string, 8)}, "tagged": &counter{notes: make(chan string, 8)},
	} {
		host, port, err := net.SplitHostPort(serve(t, service))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out, err := exec.CommandContext(ctx, "python3", "testdata/client.py", host, port).CombinedOutput()
		cancel()
		if err != nil || strings.Count(string(out), "ok\n") != 4 {
			t.Errorf("%s: %v\n%s", kind, err, out)
		}
	}
}
