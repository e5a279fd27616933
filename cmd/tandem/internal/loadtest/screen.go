package loadtest

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// Screen shows views of a run: on a terminal in place of the last one, else in a line for each
// second. It is not safe for concurrent use.
type Screen struct {
	Out   io.Writer
	Load  *Load
	Live  bool // Out is a terminal
	Color bool

	drawn   int // lines on the terminal
	seconds int // the last second that has its line
	begun   bool
}

// Control sequences of ECMA-48 that every terminal supports.
const (
	cursorUp   = "\x1b[%dA"
	eraseDown  = "\x1b[J"
	red        = "\x1b[31m"
	resetColor = "\x1b[0m"
)

// Show shows a view.
func (s *Screen) Show(v *View) {
	if s.Live {
		lines := s.lines(v)
		fmt.Fprint(s.Out, s.erase(), strings.Join(lines, "\n"), "\n")
		s.drawn = len(lines)
		return
	}
	for _, second := range v.Seconds {
		if !s.begun || second.At > s.seconds {
			s.begun, s.seconds = true, second.At
			fmt.Fprintln(s.Out, s.line(v, &second))
		}
	}
}

// Clear removes the last view from a terminal.
func (s *Screen) Clear() { fmt.Fprint(s.Out, s.erase()) }

func (s *Screen) erase() string {
	n := s.drawn
	s.drawn = 0
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(cursorUp, n) + eraseDown
}

// line returns a second in a line.
func (s *Screen) line(v *View, second *Second) string {
	when := fmt.Sprintf("%3ds", second.At+1)
	if second.At < 0 {
		when = "warm"
	}
	return fmt.Sprintf("%s  %6d/s  p50 %s  p90 %s  p99 %s  failed %d  not sent %d  in flight %d", when, second.Rate,
		latencyCell(second.P50, second.Rate), latencyCell(second.P90, second.Rate), latencyCell(second.P99, second.Rate), second.Failed, second.NotSent, v.InFlight)
}

// latencyCell prints a latency with an even width.
func latencyCell(ms float64, calls int64) string {
	text := "-"
	if calls > 0 {
		text = shown(ms)
	}
	return fmt.Sprintf("%-8s", text)
}

// lines returns what a terminal shows, in lines of fewer than 80 characters.
func (s *Screen) lines(v *View) []string {
	var last Second
	var rates, tails []float64
	for _, second := range v.Seconds {
		last = second
		rates, tails = append(rates, float64(second.Rate)), append(tails, second.P99)
	}
	failed, notSent := s.alarm("failed", v.Counts.Failed), s.alarm("not sent", v.Counts.NotSent)
	lines := []string{
		s.progress(v),
		fmt.Sprintf("ok %d   %s   %s   in flight %d", v.Counts.OK, failed, notSent, v.InFlight),
		fmt.Sprintf("last second  %6d/s  p50 %s  p90 %s  p99 %s", last.Rate, latencyCell(last.P50, last.Rate), latencyCell(last.P90, last.Rate), latencyCell(last.P99, last.Rate)),
		"calls/s      " + sparkline(rates),
		"p99          " + sparkline(tails),
	}
	if s.Load.Callers > 0 {
		lines = append(lines, ClosedLoopNote)
	}
	return lines
}

// progress returns a bar for the time that has passed.
func (s *Screen) progress(v *View) string {
	const width = 30
	if v.Elapsed < 0 {
		return fmt.Sprintf("warm-up, %.0f s left", math.Ceil(-v.Elapsed.Seconds()))
	}
	done := min(1, v.Elapsed.Seconds()/v.Duration.Seconds())
	n := int(math.Round(done * width))
	text := fmt.Sprintf("%s%s  %s of %v", strings.Repeat("━", n), strings.Repeat("─", width-n), min(v.Elapsed, v.Duration).Truncate(time.Second), v.Duration)
	switch stages := s.Load.Stages; {
	case v.Elapsed >= v.Duration:
		text += ", waiting for the last responses"
	case len(stages) > 1:
		text += fmt.Sprintf(", stage %d of %d: %s/s", v.Stage+1, len(stages), number(stages[v.Stage].Rate))
	}
	return text
}

// alarm returns a count, in red if it is not 0.
func (s *Screen) alarm(what string, n int64) string {
	text := fmt.Sprintf("%s %d", what, n)
	if s.Color && n > 0 {
		return red + text + resetColor
	}
	return text
}

// sparkline returns a character for each value, as high as the value is to the largest one.
func sparkline(values []float64) string {
	levels := []rune("▁▂▃▄▅▆▇█")
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	var text strings.Builder
	for _, v := range values {
		level := 0
		if most > 0 {
			level = int(v / most * float64(len(levels)-1))
		}
		text.WriteRune(levels[level])
	}
	return text.String()
}
