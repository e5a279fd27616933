package main

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

func TestHelp(t *testing.T) {
	for _, line := range [][]string{{"help"}, {"-h"}, {"--help"}} {
		code, out, errs := cli(t, line...)
		if code != exitOK || errs != "" || strings.Contains(out, demoServer) {
			t.Errorf("%v: exit %d, %s%s", line, code, out, errs)
		}
		for _, verb := range newRoot(&shell{}).Commands() {
			if !verb.Hidden && !strings.Contains(out, verb.Short) {
				t.Errorf("%v does not tell of %s", line, verb.Name())
			}
		}
	}
	if code, _, errs := cli(t, "help", "dance"); code != exitUsage || !strings.Contains(errs, "dance") {
		t.Errorf("help of nothing: exit %d, %s", code, errs)
	}
}

// TestHelpOfEveryCommand: help fits a screen, and shows an example of each verb that parses.
func TestHelpOfEveryCommand(t *testing.T) {
	const lines, columns = 40, 110
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.Hidden {
			return
		}
		path := strings.Fields(cmd.CommandPath())[1:]
		var out string
		for _, args := range [][]string{append([]string{"help"}, path...), append(path, "-h")} {
			var code int
			var errs string
			code, out, errs = cli(t, args...)
			if code != exitOK || errs != "" || !strings.Contains(out, "\nusage: "+cmd.CommandPath()) {
				t.Errorf("%v: exit %d, %s%s", args, code, out, errs)
			}
		}
		if n := strings.Count(out, "\n"); n > lines {
			t.Errorf("the help of %s has %d lines, more than %d", cmd.CommandPath(), n, lines)
		}
		for line := range strings.Lines(out) {
			if utf8.RuneCountInString(line) > columns {
				t.Errorf("the help of %s has a line longer than %d columns: %s", cmd.CommandPath(), columns, line)
			}
		}
		if cmd.HasSubCommands() {
			return
		}
		if !strings.HasPrefix(cmd.Example, cmd.CommandPath()) {
			t.Errorf("the example of %s is %q", cmd.CommandPath(), cmd.Example)
		}
	}
	walk(newRoot(&shell{}))
}
