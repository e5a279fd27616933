// Package progress shows how far a long run has come.
package progress

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// Line shows what is written to it, a line a Write: on a terminal each line in
// the place of the last, elsewhere one below the other. One goroutine at a time
// may use it.
type Line struct {
	w    io.Writer
	live bool
	open bool // the cursor stands behind a line
}

// New returns a Line on the file, usually standard error.
func New(file *os.File) *Line {
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
	return &Line{w: file, live: terminal}
}

// What a terminal obeys: go back to the line's start and erase it; cut off
// what is longer than the line is wide, since the rest could not be erased.
const (
	erase  = "\r\x1b[2K"
	cut    = "\x1b[?7l"
	noCut  = "\x1b[?7h"
	endOut = "\n"
)

// Write shows a line.
func (l *Line) Write(line []byte) (int, error) {
	if !l.live {
		return l.w.Write(line)
	}
	l.open = true
	if _, err := fmt.Fprintf(l.w, "%s%s%s%s", erase, cut, bytes.TrimRight(line, endOut), noCut); err != nil {
		return 0, err
	}
	return len(line), nil
}

// End leaves the last line standing and begins a new one, for whoever writes to
// the terminal next.
func (l *Line) End() {
	if l.open {
		fmt.Fprint(l.w, endOut)
	}
	l.open = false
}
