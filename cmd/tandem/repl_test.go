package main

import (
	"slices"
	"strings"
	"testing"
)

func TestSplitLine(t *testing.T) {
	for line, want := range map[string][]string{ // the last one is the JSON
		`ls`:                              {"ls", ""},
		`  call   A.B  {"a": 1} `:         {"call", "A.B", `{"a": 1}`},
		`call A.B [1, 2]`:                 {"call", "A.B", "[1, 2]"},
		`call A.B "x y"`:                  {"call", "A.B", `"x y"`},
		`call A.B -7`:                     {"call", "A.B", "-7"},
		`call -s A.B {"a":'1'} {}`:        {"call", "-s", "A.B", `{"a":'1'} {}`},
		`call -H 'k=a b' A.B @file`:       {"call", "-H", "k=a b", "A.B", "@file", ""},
		`instance drain --why='new disk'`: {"instance", "drain", "--why=new disk", ""},
		`{"a": 1}`:                        {`{"a":`, "1}", ""},
	} {
		words, rest, err := splitLine(line)
		if got := append(slices.Clone(words), rest); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v; want %q", line, got, err, want)
		}
	}
	for _, line := range []string{"", "  ", "call 'A.B"} {
		if words, rest, err := splitLine(line); err == nil {
			t.Errorf("%q: %q and %q", line, words, rest)
		}
	}
}

func TestCompleteLine(t *testing.T) {
	r := &repl{target: "tcp://127.0.0.1:1", methods: []string{"Arith.Mul\tunary", "Arith.Mod\tunary", "Hello.Say"}}
	for line, want := range map[string]string{
		"des":             "describe ",
		"call Ar":         "call Arith.M",
		"call -s H":       "call -s Hello.Say ",
		"describe Arith.": "describe Arith.M",
		"call X":          "",
		"call Arith.M":    "", // it is not clear which
		"ls H":            "",
	} {
		got, ok := r.completeLine(line)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q becomes %q, %v; want %q", line, got, ok, want)
		}
	}
}

// TestREPLSettings: what calls get, and what is not a command.
func TestREPLSettings(t *testing.T) {
	r := &repl{sh: &shell{}, given: []string{"--tls"}, target: "@prod"}
	for _, c := range []struct{ line, err string }{
		{"set header a=b", ""}, {"set header b=c=d", ""}, {"set timeout 2s", ""}, {"set output yaml", ""},
		{"set header =x", "want KEY=VALUE"}, {"set output xml", "want one of"}, {"set speed 1", "want header, timeout or output"}, {"set timeout", "set wants"},
		{"unset header c", `"c" is not set`}, {"unset all", "unset wants"}, {"use", "use wants TARGET"}, {"use odd://x", "want a target"}, {"unset header a", ""},
	} {
		words, rest, err := splitLine(c.line)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range replCommands() {
			if command.name == words[0] {
				_, err = command.run(r, t.Context(), words[1:], rest)
			}
		}
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v; want %q", c.line, err, c.err)
		}
	}
	got := strings.Join(r.callArgs([]string{"-s", "A.B"}, "{}"), " ")
	if want := "call --tls --metadata=b=c=d --timeout=2s @prod -s A.B -- {}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	got = strings.Join(r.listArgs([]string{"ls"}, []string{"-w"}, false), " ")
	if want := "ls --output=yaml @prod -w"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
