package main

import (
	"runtime"
	"testing"
)

// The demo's Prometheus ends with the standard input, which is closed even if the demo is killed,
// and its end is an error.
func TestDemoPrometheusEndsWithTheDemo(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a POSIX shell")
	}
	s := spawn(t, demoPrometheus, "sh", "-c", `trap 'echo ended as asked; exit 0' TERM; echo "$1"; while :; do sleep 0.01; done`, "sh", "--config.file")
	if line := s.next(t); line != "--config.file" {
		t.Errorf("got %q", line)
	}
	if err := s.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if line := s.next(t); line != "ended as asked" {
		t.Errorf("got %q", line)
	}
	if code := s.exit(t); code != exitOK {
		t.Errorf("exit code %d: %s", code, s.errs.String())
	}
	s = spawn(t, demoPrometheus, "sh", "-c", "exit 3")
	if code := s.exit(t); code != exitFailed {
		t.Errorf("exit code %d when it ends by itself: %s", code, s.errs.String())
	}
}
