package main

import (
	"bytes"
	"strings"
	"testing"
)

// cli runs a command line in this process.
func cli(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	return cliWith(t, "", args...)
}

func cliWith(t *testing.T, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(t.Context(), &shell{strings.NewReader(in), &stdout, &stderr}, args)
	return code, stdout.String(), stderr.String()
}

func TestCommandLines(t *testing.T) {
	for _, c := range []struct {
		line string
		code int
		says string // on standard output, or on standard error if it failed
	}{
		{"", exitUsage, "usage: tandem COMMAND"},
		{"dance", exitUsage, `no command "dance"; tandem --help lists them`},
		{"serv", exitUsage, "did you mean tandem serve?"},
		{"version", exitOK, "tandem "},
		{"version 2", exitUsage, "takes no arguments"},
		{"demo now", exitUsage, "takes no arguments"},
		{"demo --tempo 3", exitUsage, "--tempo; tandem help demo lists"},
		{"demo --sevrers 3", exitUsage, "did you mean --servers?"},
		{"demo -duration 5s", exitUsage, "did you mean --duration?"},
		{"call -timeout=5s", exitUsage, "did you mean --timeout?"},
		{"--dance", exitUsage, "--dance; tandem help lists the commands"},
		{"demo --duration 1s", exitUsage, "want 3s to 1h"},
		{"demo --rate 1", exitUsage, "want 10 to"},
		{"demo --servers 1", exitUsage, "want 2 to 16"},
		{"demo --failover --no-failover", exitUsage, "contradict"},
		{"serve --listen http://x", exitUsage, "want tcp://host:port"},
		{"serve --registry ftp://x", exitUsage, "want one of consul://"},
		{"serve --registry etcd://x", exitUsage, "want host:port"},
		{"demo --registry ftp://x", exitUsage, "want one of consul://"},
		{"serve --registry ://", exitUsage, "--registry: target"},
		{"serve --listen tcp://127.0.0.1:1234567", exitFailed, "1234567"},
		{"call tcp://127.0.0.1:1", exitUsage, "TARGET METHOD"},
		{"call tcp://127.0.0.1:1 A.B {} more", exitUsage, "got 4"},
		{"call tcp://127.0.0.1:1 A.B {", exitUsage, "is not JSON"},
		{"call -n tcp://127.0.0.1:1 A.B {}", exitUsage, "--several wants a JSON array"},
		{"call --metadata x tcp://127.0.0.1:1 A.B", exitUsage, "want key=value"},
		{"call odd://x A.B", exitUsage, `"odd://x": want a target such as tcp://host:port`},
	} {
		code, out, errs := cli(t, strings.Fields(c.line)...)
		text := out
		if code != exitOK {
			text = errs
		}
		if code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("tandem %s: exit %d, %s%s\nwant exit %d and %q", c.line, code, out, errs, c.code, c.says)
		}
	}
}
