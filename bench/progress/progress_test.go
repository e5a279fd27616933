package progress

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestATerminalShowsOneLine(t *testing.T) {
	var out bytes.Buffer
	l := &Line{w: &out, live: true}
	fmt.Fprintln(l, "one")
	fmt.Fprintln(l, "two")
	l.End()
	l.End()
	want := "\r\x1b[2K\x1b[?7lone\x1b[?7h" + "\r\x1b[2K\x1b[?7ltwo\x1b[?7h" + "\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestAFileGetsPlainLines(t *testing.T) {
	name := filepath.Join(t.TempDir(), "stderr")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	l := New(file)
	fmt.Fprintln(l, "one")
	fmt.Fprintln(l, "two")
	l.End()
	if text, err := os.ReadFile(name); err != nil || string(text) != "one\ntwo\n" {
		t.Errorf("got %q, %v", text, err)
	}
}
