package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
)

const exitCodesText = `
exit codes:
  0     all is well
  1     the command failed; for demo: a check failed
  2     the command line is wrong
  11-26 the call failed, with 10 + its code: 11 canceled, 12 unknown (the method
        returned an error), 13 invalid argument, 14 deadline exceeded, 15 not
        found, 16 already exists, 17 permission denied, 18 resource exhausted,
        19 failed precondition, 20 aborted, 21 out of range, 22 unimplemented,
        23 internal, 24 unavailable, 25 data loss, 26 unauthenticated
  130   interrupted by a signal
`

func runHelp(ctx context.Context, sh *shell, args []string) error {
	if len(args) == 0 {
		printHelp(sh.out)
		return nil
	}
	v, err := find(args[0])
	if err != nil {
		return err
	}
	if v.name == "help" {
		return runHelp(ctx, sh, nil)
	}
	if err := v.run(ctx, sh, []string{"-help"}); !errors.Is(err, flag.ErrHelp) {
		return err
	}
	return nil
}

func printHelp(w io.Writer) {
	fmt.Fprint(w, "usage: tandem COMMAND\n\n")
	for _, v := range verbs() {
		if v.summary != "" {
			fmt.Fprintf(w, "  %-8s %s\n", v.name, v.summary)
		}
	}
	fmt.Fprint(w, "\ntandem help COMMAND tells more.\n", exitCodesText)
}
