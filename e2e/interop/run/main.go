// Command run installs the suites and clients of other projects, runs them against a server of
// ours, and writes the results into a page of the documentation:
//
//	go run ./run -bin ../.bin/interop -out ../docs/reference/interop.md
//
// With -short it runs only those that are written in Go, and writes nothing. It fails if one of
// them fails, and reports those that could not be installed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

func main() {
	short := flag.Bool("short", false, "only the suites in Go")
	bin := flag.String("bin", "", "folder for what is installed")
	out := flag.String("out", "", "the page to write")
	only := flag.String("only", "", "only the suite of that name")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *bin, *out, *only, *short); err != nil {
		log.Fatal(err) //nolint:gocritic // stop only unregisters a signal
	}
}

func run(ctx context.Context, bin, out, only string, short bool) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	e := &env{bin: bin}
	if err := e.build(ctx); err != nil {
		return err
	}
	if err := e.serve(ctx); err != nil {
		return errors.Join(err, e.stop())
	}
	results, err := e.runAll(ctx, only, short)
	err = errors.Join(err, e.stop())
	if out == "" || short {
		return err
	}
	return errors.Join(err, writePage(out, results))
}

// result is the result of a suite.
type result struct {
	*suite

	passed, total int
	err           error // why it failed, or could not be run
}

// runAll runs the suites, one after the other.
func (e *env) runAll(ctx context.Context, only string, short bool) ([]result, error) {
	var results []result
	var failed error
	for _, s := range suites {
		if short && !s.short || only != "" && only != s.name {
			continue
		}
		began := time.Now()
		r := e.runOne(ctx, s)
		results = append(results, r)
		fmt.Fprintf(os.Stdout, "%-22s %d of %d, %.1f s\n", s.name, r.passed, r.total, time.Since(began).Seconds())
		switch {
		case errors.Is(r.err, errNotInstalled):
			fmt.Fprintln(os.Stdout, "  ", r.err)
		case r.err != nil:
			failed = errors.Join(failed, fmt.Errorf("%s: %w", s.name, r.err))
		case r.passed+len(s.known) < r.total || r.total == 0:
			failed = errors.Join(failed, fmt.Errorf("%s: %d of %d passed", s.name, r.passed, r.total))
		}
	}
	return results, failed
}

// longest bounds the time of a suite, including its installation.
const longest = 15 * time.Minute

func (e *env) runOne(ctx context.Context, s *suite) result {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	if err := s.install(ctx, e); err != nil {
		return result{suite: s, err: fmt.Errorf("%w: %w", errNotInstalled, err)}
	}
	passed, total, err := s.run(ctx, e)
	return result{s, passed, total, err}
}

var errNotInstalled = errors.New("not installed")
