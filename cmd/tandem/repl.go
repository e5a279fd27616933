package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/registry"
)

func newREPL(sh *shell) *cobra.Command {
	var access accessFlags
	cmd := &cobra.Command{
		Use:   "repl [flags] TARGET",
		Short: "read commands for a target, a line each: call, describe, ls, and more",
		Long: "On a terminal lines can be edited. With other input it ends with the code of the last command that\n" +
			"failed. Type help for the commands.",
		Example: "tandem repl tcp://127.0.0.1:8972",
		Args:    wantArgs(1, 1),
	}
	cmd.ValidArgsFunction = complete(false, false, contextTargets)
	stop := cmd.Flags().Bool("stop", false, "end at the first command that fails")
	access.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		r := &repl{sh: sh, stop: *stop, access: &access, given: givenFlags(cmd.Flags())}
		if err := r.use(args[0]); err != nil {
			return err
		}
		if in, out, ok := terminalOf(sh); ok {
			r.interactive = true
			lines := newTerminalLines(in, out, r.completeLine)
			defer lines.guard()()
			return r.loop(context.WithoutCancel(cmd.Context()), lines) // SIGINT ends the command that runs, and not the shell
		}
		return interrupted(cmd.Context(), r.loop(cmd.Context(), newPlainLines(sh.in)))
	}
	return cmd
}

// givenFlags returns the flags that say how servers are reached, as they were given.
func givenFlags(set *pflag.FlagSet) []string {
	var given []string
	set.Visit(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "tls") || strings.HasPrefix(f.Name, "token") {
			given = append(given, "--"+f.Name+"="+f.Value.String())
		}
	})
	return given
}

// lineReader reads lines; it returns io.EOF when there are no more.
type lineReader interface {
	next(prompt string) (string, error)
}

// replError is the exit code of a command that has failed and said so.
type replError struct{ code int }

func (e replError) Error() string {
	return fmt.Sprintf("the last command that failed ended with %d", e.code)
}

// maxHistory is how many lines are kept.
const maxHistory = 1000

// repl runs commands for a target.
type repl struct {
	sh          *shell
	access      *accessFlags
	given       []string // flags that say how servers are reached
	interactive bool
	stop        bool // at the first command that fails

	target  string
	headers map[string]string
	timeout time.Duration // of calls; 0 for the default
	output  listing.Format
	history []string
	methods []string // of the target, for completion; nil if they are not known
}

// errExit is the error of the command exit.
var errExit = errors.New("exit")

// loop reads and runs lines.
func (r *repl) loop(ctx context.Context, in lineReader) error {
	code := exitOK
	for ctx.Err() == nil {
		line, err := in.next("tandem " + listing.Printable(registry.Redact(r.target)) + "> ")
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		r.remember(line)
		failed, ended := r.run(ctx, line)
		if failed != exitOK {
			code = failed
		}
		if ended || failed != exitOK && r.stop {
			break
		}
	}
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case code != exitOK && !r.interactive:
		return replError{code}
	}
	return nil
}

// remember keeps a line, but for the value of a header, which may be a secret.
func (r *repl) remember(line string) {
	if words := strings.Fields(line); len(words) > 2 && words[0] == "set" && words[1] == "header" { //nolint:mnd // and what is set
		key, _, _ := strings.Cut(words[2], "=")
		line = "set header " + key + "=***"
	}
	if r.history = append(r.history, line); len(r.history) > maxHistory {
		r.history = r.history[1:]
	}
}

// run runs a line, and returns its exit code and whether it is the last one.
func (r *repl) run(ctx context.Context, line string) (code int, ended bool) {
	words, rest, err := splitLine(line)
	if err == nil {
		verb := words[0]
		if verb != "call" && rest != "" {
			words = append(words, rest)
		}
		switch at := slices.IndexFunc(replCommands(), func(c replCommand) bool { return c.name == verb || c.alias == verb }); {
		case at < 0:
			err = unknownLine(verb)
		default:
			code, err = replCommands()[at].run(r, ctx, words[1:], rest)
		}
	}
	switch {
	case errors.Is(err, errExit):
		return exitOK, true
	case err != nil:
		fmt.Fprintln(r.sh.err, "tandem:", listing.Printable(describe(err)))
		return exitCode(err), false
	}
	return code, false
}

func unknownLine(verb string) error {
	var names []string
	for _, c := range replCommands() {
		names = append(names, c.name)
	}
	if meant := similar(verb, names); meant != "" {
		return usagef("no command %q; did you mean %s?", verb, meant)
	}
	return usagef("no command %q; help lists them", verb)
}

// verb runs a command of tandem.
func (r *repl) verb(ctx context.Context, args ...string) (int, error) {
	if r.interactive {
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, os.Interrupt)
		defer stop()
	}
	return run(ctx, &shell{strings.NewReader(""), r.sh.out, r.sh.err}, args), nil
}

// use changes the target.
func (r *repl) use(arg string) error {
	target, err := targetOf(arg)
	if err != nil {
		return err
	}
	if _, _, err := (&place{target: target}).list(); err != nil {
		return err
	}
	r.target, r.methods = arg, nil
	return nil
}

// callArgs returns the command line of a call. rest is JSON.
func (r *repl) callArgs(words []string, rest string) []string {
	args := append([]string{"call"}, r.given...)
	for _, key := range sortedKeys(r.headers) {
		args = append(args, "--metadata="+key+"="+r.headers[key])
	}
	if r.timeout > 0 {
		args = append(args, "--timeout="+r.timeout.String())
	}
	args = append(append(args, r.target), words...)
	if rest != "" {
		args = append(args, "--", rest)
	}
	return args
}

// listArgs returns the command line of a command that prints a list.
func (r *repl) listArgs(verb []string, words []string, access bool) []string {
	args := slices.Clone(verb)
	if access {
		args = append(args, r.given...)
	}
	if r.output != "" {
		args = append(args, "--output="+string(r.output))
	}
	return append(append(args, r.target), words...)
}
