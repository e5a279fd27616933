package demo

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// The demo needs Prometheus before it begins, and says how to have it.
func TestPrometheusIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := FindPrometheus(); err == nil || !strings.Contains(err.Error(), "apt-get install prometheus") {
		t.Errorf("got %v", err)
	}
	shellCommand(t, "") // skips on Windows, where programs have other names
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "prometheus"), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	if path, err := FindPrometheus(); err != nil || path != filepath.Join(dir, "prometheus") {
		t.Errorf("got %q, %v", path, err)
	}
}

// A Prometheus that ends is an error with what it said.
func TestPrometheusThatFails(t *testing.T) {
	_, err := startObserver(t.Context(), func(...string) *exec.Cmd { return shellCommand(t, "echo no room for data >&2; exit 1") }, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "no room for data") || !strings.Contains(err.Error(), "has ended") {
		t.Errorf("got %v", err)
	}
}

// The targets are those of the servers that run, under their names.
func TestTargets(t *testing.T) {
	o := &observer{dir: t.TempDir(), url: "http://127.0.0.1:1", scraped: map[string]string{}}
	if err := o.expose(t.Context(), "client", prometheus.NewGauge(prometheus.GaugeOpts{Name: "a", Help: "A."})); err != nil {
		t.Fatal(err)
	}
	defer o.closers[0]()
	for _, change := range [][2]string{{"s1", "127.0.0.1:2"}, {"s2", "127.0.0.1:3"}, {"s1", ""}} {
		if err := o.scrape(change[0], change[1]); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(o.dir, targetsFile))
	if err != nil {
		t.Fatal(err)
	}
	var groups []struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	if err := json.Unmarshal(text, &groups); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, g := range groups {
		found[g.Labels["instance"]] = g.Targets[0]
	}
	if len(found) != 2 || found["s2"] != "127.0.0.1:3" || !strings.HasPrefix(found["client"], "127.0.0.1:") {
		t.Errorf("got %s", text)
	}
	var none *observer
	if err := none.scrape("s1", "x"); err != nil {
		t.Error(err)
	}
	none.stop()
	for _, want := range []string{"http://127.0.0.1:1/alerts", "attempts a call", "g0.expr=tandem_client_instances"} {
		if !strings.Contains(o.guide(), want) {
			t.Errorf("no %q in %s", want, o.guide())
		}
	}
}
