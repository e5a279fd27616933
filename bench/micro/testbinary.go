package micro

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// TestBinary is a source: benchmarks among the tests of a package of this
// repository. They stand there because they use what a module of its own may
// not import.
type TestBinary struct {
	Package string   // import path
	Pattern string   // which benchmarks, as "go test -bench" takes it
	Flags   []string // of the build
	Prefix  string   // put before the names of its benchmarks

	dir, source string // where the binary is and where the package is
}

// binaryName ends in what Windows wants a program to end in.
const binaryName = "tests.exe"

// prepare builds the package's tests.
func (t *TestBinary) prepare(ctx context.Context) (err error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", t.Package).Output()
	if err != nil {
		return fmt.Errorf("micro: package %s not found; run inside the repository: %w", t.Package, err)
	}
	t.source = string(bytes.TrimSpace(out))
	if t.dir, err = os.MkdirTemp("", "bench-micro-"); err != nil {
		return fmt.Errorf("micro: %w", err)
	}
	args := append([]string{"test", "-c", "-o", t.binary()}, t.Flags...)
	if out, err := exec.CommandContext(ctx, "go", append(args, t.Package)...).CombinedOutput(); err != nil {
		return fmt.Errorf("micro: the tests of %s can't be built: %w\n%s", t.Package, err, out)
	}
	return nil
}

// release deletes the binary. It lies among temporary files; a failure is not
// worth a word.
func (t *TestBinary) release() {
	if t.dir != "" {
		_ = os.RemoveAll(t.dir)
	}
}

func (t *TestBinary) binary() string { return filepath.Join(t.dir, binaryName) }

func (t *TestBinary) round(ctx context.Context, _ int, benchtime time.Duration, add func(string, Sample)) error {
	cmd := exec.CommandContext(ctx, t.binary(),
		"-test.run=^$", "-test.bench="+t.Pattern, "-test.benchmem", "-test.benchtime="+benchtime.String())
	cmd.Dir = t.source // where "go test" runs it
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("micro: the benchmarks of %s failed: %w\n%s", t.Package, err, out)
	}
	found := 0
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if name, sample, ok := ParseLine(lines.Text()); ok {
			add(t.Prefix+withoutProcessors(name), sample)
			found++
		}
	}
	if found == 0 {
		return fmt.Errorf("micro: no benchmark of %s fits %q", t.Package, t.Pattern)
	}
	return nil
}

// resultLine is a benchmark's name, the operations, and figures with their
// units.
var resultLine = regexp.MustCompile(`^Benchmark(\S+)\s+\d+\s+(.* ns/op.*)$`)

// ParseLine reads a line of a benchmark's result, as "go test -bench" prints it.
// The name is what follows "Benchmark". With ok false it is another line.
func ParseLine(line string) (name string, s Sample, ok bool) {
	parts := resultLine.FindStringSubmatch(line)
	if parts == nil {
		return "", s, false
	}
	fields := strings.Fields(parts[2])
	for i := 0; i+1 < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return "", s, false
		}
		switch fields[i+1] {
		case "ns/op":
			s.NS = v
		case "MB/s":
			s.MBs = v
		case "B/op":
			s.Bytes = v
		case "allocs/op":
			s.Allocs = v
		case Extra:
			s.Extra = v
		}
	}
	return parts[1], s, true
}

// processors is what "go test" puts behind a name where there are several.
var processors = regexp.MustCompile(`-\d+$`)

// withoutProcessors is the name as the benchmark's own package has it.
func withoutProcessors(name string) string { return processors.ReplaceAllString(name, "") }
