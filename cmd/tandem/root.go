package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newRoot returns the command with all its verbs.
func newRoot(sh *shell) *cobra.Command {
	root := group("tandem COMMAND", "Calls and serves methods, and shows and changes what a cluster does.",
		newDemo(sh), newServe(sh), newCall(sh), newREPL(sh), newBench(sh), newLs(sh), newDescribe(sh), newTop(sh), newTap(sh), newConsole(sh), newInstance(sh), newPolicy(sh), newRegistry(sh),
		newCheck(sh), newProxy(sh), newContext(sh), newCompletion(sh), newVersion(sh), newDemoServer(sh), newDemoPrometheus(sh))
	root.SetIn(sh.in)
	root.SetOut(sh.out)
	root.SetErr(sh.err)
	root.SilenceErrors, root.SilenceUsage = true, true // run prints errors
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { printHelp(sh.out, cmd) })
	root.SetHelpCommand(newHelp(sh))
	return root
}

// group returns a command that only has others below it.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(cmd, args[0])
			}
			printHelp(cmd.ErrOrStderr(), cmd)
			return errShown
		},
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(commands...)
	return cmd
}

// noCommand returns the error for the name of a command that there isn't.
func noCommand(parent *cobra.Command, name string) error {
	hint := parent.CommandPath() + " --help lists them"
	if similar := parent.SuggestionsFor(name); len(similar) > 0 {
		hint = fmt.Sprintf("did you mean %s %s?", parent.CommandPath(), similar[0])
	}
	return usagef("no command %q; %s", strings.TrimPrefix(parent.CommandPath()+" "+name, "tandem "), hint)
}

// wantArgs accepts from least to most arguments; any number from least on if most is negative.
func wantArgs(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		_, form, _ := strings.Cut(cmd.Use, " ")
		form = strings.TrimPrefix(strings.TrimPrefix(form, "[flags]"), " ")
		switch {
		case len(args) >= least && (most < 0 || len(args) <= most):
			return nil
		case most == 0:
			return usagef("%s takes no arguments, got %q", verbPath(cmd), args[0])
		}
		return usagef("%s wants %s, got %d arguments; tandem help %[1]s tells more", verbPath(cmd), form, len(args))
	}
}

// verbPath returns the words that name a command, without the program's name.
func verbPath(cmd *cobra.Command) string { return strings.TrimPrefix(cmd.CommandPath(), "tandem ") }

// flagError makes a usage error of an error in the flags. For a flag that there isn't, it names
// the one that is meant.
func flagError(cmd *cobra.Command, err error) error {
	hint := fmt.Sprintf("tandem help %s lists the flags", verbPath(cmd))
	if !cmd.HasParent() {
		hint = "tandem help lists the commands"
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		// The flag -timeout is taken for the shorthands t, i, m, e, o, u and t.
		name := unknown.GetSpecifiedShortnames()
		if name == "" {
			name = unknown.GetSpecifiedName()
		}
		name, _, _ = strings.Cut(name, "=")
		if meant := similarFlag(cmd, name); meant != "" {
			hint = fmt.Sprintf("did you mean --%s?", meant)
		}
	}
	return usagef("%v; %s", err, hint)
}

// similarFlag returns the name of the command's flag that differs the least from a name, "" if
// there is none that differs little.
func similarFlag(cmd *cobra.Command, name string) string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return similar(name, names)
}

// similar returns the name that differs the least from a word, "" if there is none that differs
// little.
func similar(word string, names []string) (meant string) {
	least := 3 // one less is still similar
	for _, name := range names {
		if d := distance(strings.ToLower(word), strings.ToLower(name)); d < least && d < len(name) {
			least, meant = d, name
		}
	}
	return meant
}

// distance returns how many letters must be changed, added or removed to make one word of the
// other (Levenshtein distance).
func distance(a, b string) int {
	row := make([]int, len(b)+1) // the distances of a prefix of a to all prefixes of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := before
			if a[i] != b[j] {
				changed++
			}
			before = row[j+1]
			row[j+1] = slices.Min([]int{changed, before + 1, row[j] + 1})
		}
	}
	return row[len(b)]
}
