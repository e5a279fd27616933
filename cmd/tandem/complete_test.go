package main

import (
	"strings"
	"testing"
)

func TestComplete(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	r, list := startServe(t), listed(t)
	for _, name := range []string{"shop", "test"} {
		if code, _, errs := cli(t, "context", "set", name, "--target", list, "--token-command", "no-such-command"); code != exitOK {
			t.Fatalf("exit %d, %s", code, errs)
		}
	}
	for _, c := range []struct {
		line       string
		says, lack string
	}{
		{"call @", "@\tfile://", "Arith"},
		{"call @t", "@test\tfile://", "@shop"},
		{"call " + r.target + " H", "Hello.Say\tunary", "Arith"},
		{"call @shop H", ":", "Hello"}, // its instances can't be reached
		{"describe " + r.target + " Hel", "\nHello\n", "Arith"},
		{"describe @none Hel", ":4", "Hello"},
		{"instance disable " + list + " cart-1 c", "cart-2\tz2 1.2", "cart-1"},
		{"instance weight odd://x c", ":4", "cart"},
		{"context use ", "shop\tfile://", "@"},
		{"context set s", "shop\tfile://", "test"},
		{"policy put p", ":0", "@"},
		{"policy put policy.yaml @s", "@shop", "@test"},
		{"help ins", "instance\t", "policy"},
		{"completion z", "zsh", "@"},
		{"ls -o y", "yaml", "@"},
		{"ls " + list + " x", ":4", "@"},
	} {
		words := strings.Split(c.line, " ")
		code, out, errs := cli(t, append([]string{"__complete"}, words...)...)
		out = "\n" + out
		if code != exitOK || !strings.Contains(out, c.says) || strings.Contains(out, c.lack) {
			t.Errorf("%s: exit %d, %s%s", c.line, code, out, errs)
		}
	}
}
