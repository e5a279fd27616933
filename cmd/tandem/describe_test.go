package main

import (
	"strings"
	"testing"
)

func TestDescribeCommand(t *testing.T) {
	r := startServe(t)
	for _, c := range []struct {
		args string // after the target
		code int
		says string
	}{
		{"", exitOK, "Arith.Mul                                                      unary          {A: integer, B: integer} "},
		{"Arith", exitOK, "Arith.Div  unary  [integer, integer]        [integer, integer]\n"},
		{"Arith.Mul", exitOK, "Arith.Mul: unary\nrequest:\n  A: integer\n  B: integer\nresponse:\n  C: integer\n"},
		{"Chat.Talk", exitOK, "Chat.Talk: bidirectional\nrequest:\n  Text: string\nresponse:\n  Text: string\n"},
		{"Arith.Mul -o json", exitOK, `"maximum": 9223372036854775807`},
		{"Arith -o wide", exitOK, "METHOD     KIND   SAFE  REQUEST"},
		{"Arith.Null", exitFailed, "did you mean Arith.Mul?"},
		{"--timeout 1ns", exitFailed, "deadline exceeded"},
		{"Arith.Something", exitFailed, "tandem describe TARGET lists them"},
	} {
		code, out, errs := cli(t, append([]string{"describe", r.target}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%s: exit %d, %s%s\nwant exit %d and %q", c.args, code, out, errs, c.code, c.says)
		}
	}
	if code, _, errs := cli(t, "describe", "tcp://127.0.0.1:1"); code != exitFailed || !strings.Contains(errs, "refused") {
		t.Errorf("no server: exit %d, %s", code, errs)
	}
	if code, _, errs := cli(t, "describe", "static://?transport=unix"); code == exitOK {
		t.Errorf("no instance: exit %d, %s", code, errs)
	}
}
