package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/registry"
)

// replCommand is a command of tandem repl.
type replCommand struct {
	name, alias string
	form, short string
	// run gets the words of the line behind the name, and the JSON behind them.
	run func(r *repl, ctx context.Context, words []string, rest string) (int, error)
}

// replCommands returns the commands, in the order in which help lists them.
func replCommands() []replCommand {
	return []replCommand{
		{"call", "", "call [flags] METHOD [JSON]", "make a call; -s for a stream, whose messages are JSON values", (*repl).call},
		{"describe", "", "describe [SERVICE[.METHOD]]", "list methods, with what they take and return", (*repl).describe},
		{"ls", "", "ls [flags]", "list the instances", (*repl).ls},
		{"instance", "", "instance COMMAND [flags] [ARGS]", "as tandem instance, for the target", below("instance")},
		{"registry", "", "registry COMMAND [flags] [ARGS]", "as tandem registry, for the target", below("registry")},
		{"check", "", "check [flags]", "look for what is wrong", (*repl).check},
		{"use", "", "use TARGET", "go on with another target, or with @CONTEXT", (*repl).useLine},
		{"set", "", "set [header KEY=VALUE | timeout TIME | output FORMAT]", "set metadata or the timeout of calls, or how lists are printed", (*repl).set},
		{"unset", "", "unset header KEY | timeout | output", "undo set", (*repl).unset},
		{"history", "", "history", "list the lines", (*repl).showHistory},
		{"help", "?", "help", "print this", (*repl).help},
		{"exit", "quit", "exit", "end; so does the end of the input", func(*repl, context.Context, []string, string) (int, error) { return 0, errExit }},
	}
}

func (r *repl) call(ctx context.Context, words []string, rest string) (int, error) {
	if rest == "-" || slices.Contains(words, "-") {
		return 0, usagef("call: standard input has the commands; write the JSON on the line, or @FILE")
	}
	return r.verb(ctx, r.callArgs(words, rest)...)
}

func (r *repl) describe(ctx context.Context, words []string, _ string) (int, error) {
	return r.verb(ctx, r.listArgs([]string{"describe"}, words, true)...)
}

func (r *repl) ls(ctx context.Context, words []string, _ string) (int, error) {
	return r.verb(ctx, r.listArgs([]string{"ls"}, words, false)...)
}

// below returns the function that runs a command of a group.
func below(group string) func(*repl, context.Context, []string, string) (int, error) {
	return func(r *repl, ctx context.Context, words []string, _ string) (int, error) {
		if len(words) == 0 || strings.HasPrefix(words[0], "-") {
			return r.verb(ctx, "help", group)
		}
		return r.verb(ctx, r.listArgs([]string{group, words[0]}, words[1:], false)...)
	}
}

func (r *repl) check(ctx context.Context, words []string, _ string) (int, error) {
	return r.verb(ctx, append(append(append([]string{"check"}, r.given...), r.target), words...)...)
}

func (r *repl) useLine(_ context.Context, words []string, _ string) (int, error) {
	if len(words) != 1 {
		return 0, usagef("use wants TARGET")
	}
	return 0, r.use(words[0])
}

// set changes a setting, and prints them all without words.
func (r *repl) set(_ context.Context, words []string, _ string) (int, error) {
	if len(words) == 0 {
		return 0, r.showSettings()
	}
	if len(words) != 2 { //nolint:mnd // what, and its value
		return 0, usagef("set wants header KEY=VALUE, timeout TIME, or output FORMAT")
	}
	switch words[0] {
	case "header":
		key, value, ok := strings.Cut(words[1], "=")
		if !ok || key == "" {
			return 0, usagef("set header: want KEY=VALUE, got %q", words[1])
		}
		if r.headers == nil {
			r.headers = make(map[string]string)
		}
		r.headers[key] = value
	case "timeout":
		d, err := time.ParseDuration(words[1])
		if err != nil || d <= 0 {
			return 0, usagef("set timeout: want a time above 0 such as 2s, got %q", words[1])
		}
		r.timeout = d
	case "output":
		if err := r.output.Set(words[1]); err != nil {
			return 0, usagef("set output: %v", err)
		}
	default:
		return 0, usagef("set %s: want header, timeout or output", words[0])
	}
	return 0, nil
}

func (r *repl) showSettings() error {
	lines := []string{"target " + registry.Redact(r.target)}
	for _, key := range sortedKeys(r.headers) {
		lines = append(lines, "header "+key+"=***")
	}
	if r.timeout > 0 {
		lines = append(lines, "timeout "+r.timeout.String())
	}
	if r.output != "" {
		lines = append(lines, "output "+string(r.output))
	}
	_, err := fmt.Fprintln(r.sh.out, listing.Printable(strings.Join(lines, "\n")))
	return err
}

func (r *repl) unset(_ context.Context, words []string, _ string) (int, error) {
	switch line := strings.Join(words, " "); {
	case len(words) == 2 && words[0] == "header":
		if _, ok := r.headers[words[1]]; !ok {
			return 0, usagef("unset header: %q is not set", words[1])
		}
		delete(r.headers, words[1])
	case line == "timeout":
		r.timeout = 0
	case line == "output":
		r.output = ""
	default:
		return 0, usagef("unset wants header KEY, timeout, or output")
	}
	return 0, nil
}

func (r *repl) showHistory(context.Context, []string, string) (int, error) {
	for i, line := range r.history {
		if _, err := fmt.Fprintf(r.sh.out, "%4d  %s\n", i+1, listing.Printable(line)); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func (r *repl) help(context.Context, []string, string) (int, error) {
	for _, c := range replCommands() {
		if _, err := fmt.Fprintf(r.sh.out, "%s\n    %s\n", c.form, c.short); err != nil {
			return 0, err
		}
	}
	return 0, nil
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
