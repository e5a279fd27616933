package main

import (
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
)

// outputFlag adds the flag that says how a command prints its list, and returns the printer.
func outputFlag(sh *shell, cmd *cobra.Command) *listing.Printer {
	p := &listing.Printer{Out: sh.out, Format: listing.Table, Color: hasColors(sh)}
	cmd.Flags().VarP(&p.Format, "output", "o", "how to print it")
	cobra.CheckErr(cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(listing.Formats(), cobra.ShellCompDirectiveNoFileComp)))
	return p
}

// hasColors reports whether the output may have colors: it is a terminal, and the user has not
// set NO_COLOR (https://no-color.org).
func hasColors(sh *shell) bool { return os.Getenv("NO_COLOR") == "" && isTerminal(sh.out) }

// stamp returns a time as RFC 3339 in UTC, "" for the zero time.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// pairs returns labels or tags as name=value,name=value, sorted.
func pairs(labels map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		list = append(list, name+"="+labels[name])
	}
	return strings.Join(list, ",")
}
