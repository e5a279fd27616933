package harness

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// needNamespaces skips a test if the process may not create namespaces. Root may, and CI
// runs as root.
func needNamespaces(t *testing.T) {
	t.Helper()
	n, err := setUp(t.Context(), Apart)
	if err != nil && os.Geteuid() != 0 {
		t.Skipf("only root makes network namespaces: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := n.tearDown(); err != nil {
		t.Fatal(err)
	}
}

// namespaces returns the namespaces that this process has created and not removed.
func namespaces(t *testing.T) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ip", "netns", "list").Output()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(name string) bool {
		return !strings.HasPrefix(name, namespacePrefix())
	})
}

// apart is a short run in network namespaces.
func apart() Settings {
	return Settings{
		Systems:     []string{"floor-mux"},
		Modes:       []Mode{Shared},
		Callers:     []int{8},
		Deployments: []Deployment{Apart, TwoServers},
		Works:       []time.Duration{0, 100 * time.Microsecond},
		Conns:       2,
		Rounds:      1,
		Warmup:      10 * time.Millisecond,
		Duration:    100 * time.Millisecond,
		Timeout:     time.Minute,
	}
}

func TestDeployments(t *testing.T) {
	needNamespaces(t)
	report, err := Run(t.Context(), apart(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Samples) != 4 || report.Failed() != 0 {
		t.Fatalf("%d samples, %d failed, want 4 good ones: %v", len(report.Samples), report.Failed(), report.Samples)
	}
	for _, s := range report.Samples {
		checkFigures(t, s)
		if s.Cell.Work > 0 && s.ServerCPU() < s.Cell.Work/2 {
			t.Errorf("%s: the server took %v for a call", s, s.ServerCPU())
		}
	}
	if left := namespaces(t); len(left) > 0 {
		t.Errorf("the run left %v behind", left)
	}
	if text := strings.Join(report.Topology, "; "); !strings.Contains(text, "veth") {
		t.Errorf("the topology is %q", text)
	}
}

func TestAnInterruptedRunLeavesNoNamespace(t *testing.T) {
	needNamespaces(t)
	ctx, interrupt := context.WithCancel(t.Context())
	report, err := Run(ctx, apart(), interrupter(interrupt))
	if !errors.Is(err, context.Canceled) || len(report.Samples) != 1 {
		t.Errorf("error %v and %v, want that it was interrupted after a measurement", err, report)
	}
	if left := namespaces(t); len(left) > 0 {
		t.Errorf("the run left %v behind", left)
	}
}

// interrupter interrupts a run at its first line of progress.
type interrupter func()

func (interrupt interrupter) Write(b []byte) (int, error) {
	interrupt()
	return len(b), nil
}

func TestDeploymentsThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(*Settings){
		"deployment":         func(s *Settings) { s.Deployments = []Deployment{"orbit"} },
		"each server needs":  func(s *Settings) { s.Deployments, s.Conns = []Deployment{TwoServers}, 1 },
		"servers' addresses": func(s *Settings) { s.Deployments = []Deployment{Elsewhere} },
	} {
		s := apart()
		change(&s)
		if err := s.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// A server and a client that are started separately.
func TestServeAndElsewhere(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	s := apart()
	s.Deployments, s.Works = []Deployment{Elsewhere}, nil
	used, err := Serve(ctx, "floor-mux", "127.0.0.1:0", 0, func(addr string) {
		defer interrupt()
		s.Addrs = []string{addr, addr}
		report, err := Run(t.Context(), s, t.Output())
		if err != nil || report.Failed() > 0 {
			t.Fatalf("%v: %v", err, report)
		}
		if sample := report.Samples[0]; sample.TPS() < 1 || sample.ServerCPU() != 0 || sample.ClientCPU() == 0 {
			t.Errorf("the sample is %+v", sample)
		}
		var b strings.Builder
		if err := report.WriteTable(&b); err != nil || !strings.Contains(b.String(), addr) || strings.Contains(b.String(), "NaN") {
			t.Errorf("error %v, table:\n%s", err, b.String())
		}
	})
	if err != nil || used.CPU == 0 || used.Wall < s.Duration {
		t.Errorf("error %v; the server used %+v", err, used)
	}
}
