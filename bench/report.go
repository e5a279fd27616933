package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tandem-rpc/tandem/bench/chart"
	"github.com/tandem-rpc/tandem/bench/harness"
	"github.com/tandem-rpc/tandem/bench/result"
)

// report writes report.md and the plots of kept results again, and README.md's block about
// one.
func report(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("bench report", flag.ExitOnError)
	readme := flags.String("readme", "", "file whose block about a result is to be made from this one")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 || *readme != "" && flags.NArg() != 1 {
		return errors.New("bench: usage: bench report [-readme FILE] DIR…, folders of kept results; with -readme exactly one")
	}
	for _, dir := range flags.Args() {
		kept, err := result.Load(dir)
		if err != nil {
			return err
		}
		if err := result.Show(dir, kept); err != nil {
			return err
		}
		if *readme == "" {
			continue
		}
		if err := writeHeadline(*readme, dir, kept); err != nil {
			return err
		}
	}
	return nil
}

// writeHeadline writes the block in a README about the result in dir.
func writeHeadline(readme, dir string, kept *harness.Report) error {
	folder, err := filepath.Rel(filepath.Dir(readme), dir)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	block, err := result.Headline(kept, filepath.ToSlash(folder))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(readme)
	if err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	changed, err := result.ReplaceHeadline(string(text), block)
	if err != nil {
		return fmt.Errorf("bench: %s: %w", readme, err)
	}
	if err := os.WriteFile(readme, []byte(changed), 0o644); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

// draw draws the charts that it reads from standard input, such as the simulator's.
func draw(_ context.Context, args []string) error {
	if len(args) != 1 {
		return errors.New("bench: usage: bench draw DIR <charts.json")
	}
	charts, err := chart.Read(os.Stdin)
	if err != nil {
		return err
	}
	return chart.Draw(args[0], charts)
}
