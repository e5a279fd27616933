package main

import (
	"strings"
	"testing"
)

func TestHelp(t *testing.T) {
	for _, line := range [][]string{{"help"}, {"-h"}, {"--help"}, {"help", "help"}} {
		code, out, errs := cli(t, line...)
		if code != exitOK || errs != "" || strings.Contains(out, demoServer) {
			t.Errorf("%v: exit %d, %s%s", line, code, out, errs)
		}
		for _, v := range verbs() {
			if !strings.Contains(out, v.summary) {
				t.Errorf("%v does not tell of %s", line, v.name)
			}
		}
	}
}

// TestHelpOfEveryCommand also fails if a command's flag set has the name of another command.
func TestHelpOfEveryCommand(t *testing.T) {
	for _, v := range verbs() {
		if v.name == "help" {
			continue
		}
		for _, args := range [][]string{{"help", v.name}, {v.name, "-h"}} {
			code, out, errs := cli(t, args...)
			if code != exitOK || errs != "" || !strings.HasPrefix(out, "usage: tandem "+v.name+" ") {
				t.Errorf("%v: exit %d, %s%s", args, code, out, errs)
			}
		}
	}
	if code, _, errs := cli(t, "help", "dance"); code != exitUsage || !strings.Contains(errs, "dance") {
		t.Errorf("help of nothing: exit %d, %s", code, errs)
	}
}
