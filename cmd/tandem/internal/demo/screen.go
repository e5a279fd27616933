package demo

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// screen shows the figures: in a table that is redrawn in place if live, else in lines. It is
// safe for concurrent use.
type screen struct {
	out  io.Writer
	live bool

	mu    sync.Mutex
	drawn int // lines of the table that is on the screen
}

// Control sequences of ECMA-48 that every terminal supports.
const (
	cursorUp  = "\x1b[%dA"
	eraseDown = "\x1b[J"
)

// show shows a view in place of the last one.
func (s *screen) show(v *view) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.live {
		fmt.Fprintln(s.out, line(v))
		return
	}
	lines := table(v)
	fmt.Fprintf(s.out, "%s%s\n", s.eraseLocked(), strings.Join(lines, "\n"))
	s.drawn = len(lines)
}

// event prints a line that stays.
func (s *screen) event(at time.Duration, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, "%s%s  %s\n", s.eraseLocked(), clock(at), text)
}

// done takes the table off the screen.
func (s *screen) done() {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprint(s.out, s.eraseLocked())
}

// eraseLocked returns the control sequence that removes the table. s.mu is held.
func (s *screen) eraseLocked() string {
	n := s.drawn
	s.drawn = 0
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(cursorUp, n) + eraseDown
}

// report prints the end of a run: the figures, the errors if there were any,
// and every check.
func report(out io.Writer, v *view, checks []check, errors []string) {
	fmt.Fprintf(out, "\nthe whole run:\n\n%s\n\n", strings.Join(table(v), "\n"))
	if len(errors) > 0 {
		fmt.Fprintf(out, "the first calls that failed or are in doubt:\n  %s\n\n", strings.Join(errors, "\n  "))
	}
	for _, c := range checks {
		if c.flaw == "" {
			fmt.Fprintf(out, "  ok    %s\n", c.what)
		} else {
			fmt.Fprintf(out, "  FAIL  %s: %s\n", c.what, c.flaw)
		}
	}
	if passed(checks) {
		fmt.Fprintln(out, "\nPASS: no call was lost")
	} else {
		fmt.Fprintln(out, "\nFAIL")
	}
}
