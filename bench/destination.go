package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"strings"

	"github.com/tandem-rpc/tandem/bench/result"
)

// destination is where the report of a command that is not of the family of
// calls goes, besides the terminal.
type destination struct{ command, file, folder string }

// flags adds those that name it. The set's name is the command's.
func (d *destination) flags(f *flag.FlagSet, args []string) {
	d.command = f.Name() + " " + strings.Join(args, " ")
	f.StringVar(&d.file, "json", "", "file for the whole report as JSON")
	f.StringVar(&d.folder, "out", "", "folder for a kept result: report.json, and the tables in report.md")
}

// publish is [publish], and keeps what was measured unless the run ended early.
func (d *destination) publish(ctx context.Context, report outcome, ended error) error {
	err := publish(report, ended, d.file)
	if ended != nil {
		return err
	}
	return errors.Join(err, d.keep(ctx, report, report.WriteTable))
}

// show is publish for a report whose tables are written by a function.
func (d *destination) show(ctx context.Context, report any, tables func(io.Writer) error) error {
	return errors.Join(tables(os.Stdout), writeFile(d.file, report), d.keep(ctx, report, tables))
}

func (d *destination) keep(ctx context.Context, report any, tables func(io.Writer) error) error {
	if d.folder == "" {
		return nil
	}
	return result.KeepTables(ctx, d.folder, d.command, report, tables)
}
