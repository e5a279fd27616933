package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

const exitCodesText = `
exit codes:
  0     all is well
  1     the command failed; for demo: a check failed
  2     the command line is wrong
  8     refused, as no instance would be left that gets calls; --force overrides it
  9     a load test crossed a threshold
  11-26 the call failed, with 10 + its code: 11 canceled, 12 unknown (the method
        returned an error), 13 invalid argument, 14 deadline exceeded, 15 not
        found, 16 already exists, 17 permission denied, 18 resource exhausted,
        19 failed precondition, 20 aborted, 21 out of range, 22 unimplemented,
        23 internal, 24 unavailable, 25 data loss, 26 unauthenticated
  130   interrupted by a signal
  check ends as a Nagios plugin: 0 ok, 1 warning, 2 critical, 3 unknown
`

// helpWidth is the width of the help in columns.
const helpWidth = 100

func newHelp(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND]",
		Short:   "print this, or what a command takes",
		Example: "tandem help policy put",
		ValidArgsFunction: func(cmd *cobra.Command, before []string, typed string) (completions, cobra.ShellCompDirective) {
			var words completions
			about, _, err := cmd.Root().Find(before)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, sub := range about.Commands() {
				if sub.IsAvailableCommand() && strings.HasPrefix(sub.Name(), typed) {
					words = append(words, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return words, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil {
				return usagef("%v", err)
			}
			if len(rest) > 0 {
				return noCommand(about, rest[0])
			}
			printHelp(sh.out, about)
			return nil
		},
	}
}

// printHelp prints what a command is for and takes.
func printHelp(w io.Writer, cmd *cobra.Command) {
	fmt.Fprintf(w, "%s\n\nusage: %s\n", cmd.Short, useLine(cmd))
	if cmd.Long != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(cmd.Long))
	}
	if cmd.HasExample() {
		fmt.Fprint(w, "\nexample:\n")
		for line := range strings.SplitSeq(cmd.Example, "\n") {
			fmt.Fprintf(w, "  %s\n", line)
		}
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(w, "\ncommands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(w, "  %-11s %s\n", sub.Name(), sub.Short)
			}
		}
		fmt.Fprintf(w, "\n%s COMMAND --help tells more.\n", cmd.CommandPath())
	} else if flags := cmd.LocalFlags().FlagUsagesWrapped(helpWidth); flags != "" {
		fmt.Fprintf(w, "\nflags:\n%s", flags)
	}
	if !cmd.HasParent() {
		fmt.Fprint(w, exitCodesText)
	}
}

// useLine returns the form of a command line.
func useLine(cmd *cobra.Command) string {
	if !cmd.HasParent() {
		return cmd.Use
	}
	return cmd.Parent().CommandPath() + " " + cmd.Use
}
