// Plot draws charts: it reads them from its standard input, as JSON, and writes
// each into a folder as SVG and as PNG.
//
//	plot DIR <charts.json
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/tandem-rpc/tandem/bench/chart"
)

func main() {
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader) error {
	if len(args) != 1 {
		return errors.New("plot: usage: plot DIR <charts.json")
	}
	var charts []chart.Chart
	if err := json.NewDecoder(in).Decode(&charts); err != nil {
		return fmt.Errorf("plot: standard input must be a JSON list of charts: %w", err)
	}
	for _, c := range charts {
		if err := write(c, args[0]); err != nil {
			return fmt.Errorf("plot: chart %q: %w", c.Name, err)
		}
	}
	return nil
}

// write draws a chart into both files.
func write(c chart.Chart, dir string) error {
	for _, format := range []string{"svg", "png"} {
		file, err := os.Create(filepath.Join(dir, c.Name+"."+format))
		if err != nil {
			return err
		}
		if err := errors.Join(render(c, format, file), file.Close()); err != nil {
			return err
		}
	}
	return nil
}
