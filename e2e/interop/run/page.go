package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"
)

// writePage writes the page with the results.
func writePage(file string, results []result) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# HTTP, tested by other projects\n\n"+
		"Suites and clients of other projects against [protocol/web](../../protocol/web/web.go). `make interop` installs them, runs them and writes this page; "+
		"`make interop-short` runs those in Go, as CI does. Last written on %s, with %s on %s.\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.GOOS)
	b.WriteString("| suite | by | what | passed |\n|---|---|---|---|\n")
	for _, r := range results {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.name, r.peer, r.what, r.seen())
	}
	for _, r := range results {
		if len(r.known) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n%s: these cases fail, as they do with Go's net/http alone:\n\n", r.name)
		for _, k := range r.known {
			fmt.Fprintf(&b, "- %s\n", k)
		}
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

func (r *result) seen() string {
	switch {
	case errors.Is(r.err, errNotInstalled):
		return "could not be installed"
	case r.err != nil:
		return fmt.Sprintf("%d of %d, and failed", r.passed, r.total)
	}
	return fmt.Sprintf("%d of %d", r.passed, r.total)
}
