package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Where the tools for Java are not, the others are measured, and the table says
// what is missing. The tests need no Java: "make bench-java" runs its peers.
func TestASystemThatCannotBeBuilt(t *testing.T) {
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(tool, filepath.Join(dir, "go")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	s := Settings{
		Systems: []string{"motan", "floor-mux"}, Modes: []Mode{Shared}, Callers: []int{4}, Conns: 1, Rounds: 1,
		Duration: 10 * time.Millisecond, Timeout: time.Minute,
	}
	report, err := Run(t.Context(), s, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if report.Failed() != 1 || !strings.Contains(report.Samples[0].Error, "Maven") || report.Samples[1].Client.Calls == 0 {
		t.Errorf("samples %+v, want one that failed for want of Maven", report.Samples)
	}
	var b strings.Builder
	if err := report.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "motan is missing: java: the peers need") || strings.Count(b.String(), "Maven") != 1 {
		t.Errorf("the table does not say once what is missing:\n%s", b.String())
	}
}

func TestJavaWarmsUpLonger(t *testing.T) {
	s := Settings{
		Systems: []string{"dubbo", "tandem"}, Modes: []Mode{Shared}, Callers: []int{1}, Rounds: 1,
		Warmup: time.Second, JavaWarmup: time.Minute,
	}
	if java, others := s.warmup("dubbo"), s.warmup("tandem"); java != time.Minute || others != time.Second {
		t.Errorf("warm-up of %v in Java and %v elsewhere, want 1m and 1s", java, others)
	}
	if n, takes := s.Estimate(); n != 2 || takes < time.Minute || takes > 65*time.Second {
		t.Errorf("%d measurements in %v, want 2 in little more than a minute", n, takes)
	}
	if text := s.String(); !strings.Contains(text, "after 1s, in Java 1m0s") {
		t.Errorf("the settings say %q", text)
	}
	s.Warmup = time.Hour
	if w := s.warmup("dubbo"); w != time.Hour {
		t.Errorf("warm-up of %v in Java, want the hour of all", w)
	}
}

// A figure that a system does not count is not shown as none.
func TestObjectsThatAreNotCounted(t *testing.T) {
	s := sample("dubbo", Cell{Mode: Shared, Callers: 1}, 0, 1000)
	if text := counted(Sample.ClientAllocs)([]Sample{s}); text != "3.0" {
		t.Errorf("three objects a call are shown as %q", text)
	}
	s.Client.Usage.Mallocs = 0
	if text := counted(Sample.ClientAllocs)([]Sample{s}); text != "–" {
		t.Errorf("objects that nobody counted are shown as %q", text)
	}
}
