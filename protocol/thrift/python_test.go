//go:build integration

package thrift_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// A client that shares no code with Apache's works: thriftpy2 0.7.1 for Python, which reads
// the interface file itself.
func TestPython(t *testing.T) {
	installed := os.Getenv("THRIFTPY2")
	if installed == "" {
		t.Fatal("$THRIFTPY2, the folder that it is installed in, is not set: run testdata/python.sh")
	}
	for kind, service := range map[string]any{
		"generated": &office{notes: make(chan string, 8)}, "tagged": &counter{notes: make(chan string, 8)},
	} {
		host, port, err := net.SplitHostPort(serve(t, service))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		cmd := exec.CommandContext(ctx, "python3", "-B", "testdata/client.py", host, port)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+installed)
		out, err := cmd.CombinedOutput()
		cancel()
		if err != nil || strings.Count(string(out), "ok\n") != 4 {
			t.Errorf("%s: %v\n%s", kind, err, out)
		}
		t.Logf("%s:\n%s", kind, out)
	}
}
