package java

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The source tree has for each peer what Build looks for.
func TestPeersHaveTheirSource(t *testing.T) {
	for _, p := range peers {
		for _, file := range []string{p.main + ".java", "pom.xml"} {
			if _, err := os.Stat(filepath.Join(p.folder, file)); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		}
	}
}

func TestJars(t *testing.T) {
	jars, err := Jars("..", "thrift-java")
	if err != nil || !slices.ContainsFunc(jars, func(jar string) bool { return strings.HasPrefix(jar, "org.apache.thrift:libthrift 0.") }) {
		t.Errorf("thrift-java is built from %q (%v), want Thrift's jar with a version", jars, err)
	}
	if _, err := Jars("..", "tandem"); err == nil {
		t.Error("tandem has jars")
	}
	bench := t.TempDir()
	if _, err := Jars(bench, "motan"); err == nil {
		t.Error("no pom.xml, and no error")
	}
	write(t, filepath.Join(bench, "java", "motan", pomFile), "<project>", 0o600)
	if _, err := Jars(bench, "motan"); err == nil {
		t.Error("half a pom.xml, and no error")
	}
}

// A stand-in for the virtual machine prints what the program hands to it.
func TestProgram(t *testing.T) {
	bench, dir := t.TempDir(), filepath.Join(t.TempDir(), "it's here")
	b := build{bench: bench, framework: "fast", dir: dir}
	write(t, filepath.Join(b.source(), flagsFile), "-Dhosts={dir}/hosts -Xss1m\n", 0o600)
	write(t, filepath.Join(dir, "java"), "#!/bin/sh\nprintf '%s\\n' \"$LC_ALL\" \"$@\"\n", 0o700)
	path := filepath.Join(dir, "fast")
	if err := b.writeProgram(peer{main: "Fast"}, path); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "server", "-work=10µs")
	cmd.Env = []string{"PATH=" + dir}
	out, err := cmd.CombinedOutput()
	want := "C.UTF-8\n-Dhosts=" + dir + "/hosts\n-Xss1m\n-cp\n" + b.classes() + ":" + b.jars() + "/*\nFast\nserver\n-work=10µs\n"
	if err != nil || string(out) != want {
		t.Errorf("the program ran java with\n%s(%v), want\n%s", out, err, want)
	}
}

// Where the tools are not, each system says so, and what to do.
func TestWithoutTools(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	missing := Build(t.Context(), t.TempDir(), t.TempDir(), []string{"dubbo", "dubbo-triple", "tandem"})
	if len(missing) != 2 || !strings.Contains(missing["dubbo"], "bench/java/tools.sh") || missing["dubbo-triple"] != missing["dubbo"] {
		t.Errorf("missing are %q", missing)
	}
	if v := Version(t.Context()); v != "" {
		t.Errorf("the virtual machine that is not there is %q", v)
	}
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
