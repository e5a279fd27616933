package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tandem-rpc/tandem/bench/chart"
	"github.com/tandem-rpc/tandem/bench/result"
)

// report makes report.md and the plots of kept results again, and README.md's
// block about one.
func report(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("bench report", flag.ExitOnError)
	readme := flags.String("readme", "", "file whose block about the newest result is to be made from this one")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: bench report [-readme FILE] DIR|FILE…")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 || *readme != "" && flags.NArg() != 1 {
		return errors.New("bench: report takes folders of kept results, or their report.json; with -readme exactly one")
	}
	for _, path := range flags.Args() {
		dir := folderOf(path)
		kept, err := result.Load(path)
		if err != nil {
			return err
		}
		if err := result.Show(dir, kept); err != nil {
			return err
		}
		if *readme == "" {
			continue
		}
		if err := writeHeadline(*readme, dir); err != nil {
			return err
		}
	}
	return nil
}

// folderOf is where a kept result lies that is named by its folder or its file.
func folderOf(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path
	}
	return filepath.Dir(path)
}

// writeHeadline makes the block in a README about the result in dir.
func writeHeadline(readme, dir string) error {
	kept, err := result.Load(dir)
	if err != nil {
		return err
	}
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

// draw draws the charts that standard input holds. The simulator's are drawn so.
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
