package micro

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
)

// Source is where benchmarks come from: a [Group] or a [TestBinary].
type Source interface {
	// prepare does once what is not measured.
	prepare(ctx context.Context) error
	// round runs each benchmark once and hands over what it measured. Rounds
	// are counted from 0.
	round(ctx context.Context, number int, benchtime time.Duration, add func(name string, s Sample)) error
	// release undoes prepare.
	release()
}

// Run measures all sources, each once a round, and writes a line to progress
// after each round.
func Run(ctx context.Context, s Settings, progress io.Writer, sources ...Source) (*Report, error) {
	if s.Count < 1 || s.Time <= 0 {
		return nil, fmt.Errorf("micro: nothing to measure: %d rounds of %v a benchmark", s.Count, s.Time)
	}
	for _, source := range sources {
		defer source.release()
		if err := source.prepare(ctx); err != nil {
			return nil, err
		}
	}
	report := &Report{When: time.Now(), Machine: harness.ThisMachine(), Settings: s, Results: Results{}}
	add := func(name string, sample Sample) { report.Results[name] = append(report.Results[name], sample) }
	for round := range s.Count {
		began := time.Now()
		for _, source := range sources {
			if err := source.round(ctx, round, s.Time, add); err != nil {
				return nil, err
			}
		}
		fmt.Fprintf(progress, "round %d/%d: %d benchmarks in %v\n", round+1, s.Count, len(report.Results), time.Since(began).Round(time.Millisecond))
	}
	if len(report.Results) == 0 {
		return nil, errors.New("micro: no benchmark fits")
	}
	return report, nil
}

// Bench is a benchmark of this process. An error ends the run.
type Bench struct {
	Name string
	Func func(b *testing.B) error
}

// Group is a source: benchmarks of this process. Every other round goes through
// them backwards, so that of two neighbours each is the first at times.
type Group []Bench

// prepare makes the flags of package testing, which testing.Benchmark reads.
func (Group) prepare(context.Context) error {
	testing.Init()
	return nil
}

func (Group) release() {}

func (g Group) round(ctx context.Context, number int, benchtime time.Duration, add func(string, Sample)) error {
	if err := flag.Set("test.benchtime", benchtime.String()); err != nil {
		return fmt.Errorf("micro: %w", err)
	}
	for i, bench := range g {
		if number%2 == 1 {
			bench = g[len(g)-1-i]
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("micro: interrupted before %s: %w", bench.Name, err)
		}
		var failure error
		result := testing.Benchmark(func(b *testing.B) {
			b.ReportAllocs()
			if failure = bench.Func(b); failure != nil {
				b.FailNow()
			}
		})
		if failure != nil {
			return fmt.Errorf("micro: %s: %w", bench.Name, failure)
		}
		add(bench.Name, sampleOf(result))
	}
	return nil
}

func sampleOf(r testing.BenchmarkResult) Sample {
	s := Sample{
		NS:     float64(r.T) / float64(r.N),
		Bytes:  float64(r.AllocedBytesPerOp()), // whole ones, as "go test" prints them
		Allocs: float64(r.AllocsPerOp()),
		Extra:  r.Extra[Extra],
	}
	if r.Bytes > 0 {
		s.MBs = float64(r.Bytes) * float64(r.N) / 1e6 / r.T.Seconds()
	}
	return s
}

// Extra is the unit under which a benchmark reports what becomes
// [Sample.Extra].
const Extra = "extra"
