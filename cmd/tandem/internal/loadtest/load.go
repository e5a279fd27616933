// Package loadtest sends calls to a method at a rate, or by callers that wait for each response,
// measures how long they take, and reports it.
package loadtest

import (
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
)

// ClosedLoopNote is shown with every figure of a closed loop.
const ClosedLoopNote = "closed loop: latencies under overload are understated"

// Stage is a part of a load with one rate.
type Stage struct {
	Rate     float64 // calls a second; 0 in a closed loop
	Duration time.Duration
}

// Load says which calls are made, and when.
type Load struct {
	Stages      []Stage       // one after the other; one in a closed loop
	Warmup      time.Duration // at the first stage's rate; its calls are not counted
	Callers     int           // of a closed loop: each makes a call when its last one has ended; 0 for an open loop
	MaxInFlight int           // of an open loop: a call that is due with so many in flight is not sent
}

// The limits of a load. Every load has an end.
const (
	maxRate     = 1e6
	maxDuration = 24 * time.Hour
	maxCallers  = 100_000
	maxStages   = 100
)

// Check returns an error for a load that can't be sent. It names the flags of the command.
func (l *Load) Check() error {
	if l.Callers < 0 || l.Callers > maxCallers {
		return fmt.Errorf("--callers %d: want 1 to %d", l.Callers, maxCallers)
	}
	if l.MaxInFlight < 1 || l.MaxInFlight > maxRate {
		return fmt.Errorf("--max-in-flight %d: want 1 to %d", l.MaxInFlight, int(maxRate))
	}
	if l.Warmup < 0 || l.Warmup > maxDuration {
		return fmt.Errorf("--warmup %v: want 0 to %v", l.Warmup, maxDuration)
	}
	if n := len(l.Stages); n == 0 || n > maxStages {
		return fmt.Errorf("--stages: %d stages: want 1 to %d", n, maxStages)
	}
	for _, s := range l.Stages {
		if s.Duration <= 0 {
			return fmt.Errorf("--duration %v: want more than 0: a load without an end is not sent", s.Duration)
		}
		if !(s.Rate > 0 && s.Rate <= maxRate) && l.Callers == 0 {
			return fmt.Errorf("--rate %v: want more than 0 and at most %d calls a second", s.Rate, int(maxRate))
		}
	}
	if d := l.Duration(); d > maxDuration {
		return fmt.Errorf("--duration: it takes longer than %v, which is the most", maxDuration)
	}
	return nil
}

// Duration returns how long the stages take, without the warm-up.
func (l *Load) Duration() (sum time.Duration) {
	for _, s := range l.Stages {
		sum += min(s.Duration, maxDuration+1) // no overflow
	}
	return sum
}

// String says what is sent, for people.
func (l *Load) String() string {
	text := fmt.Sprintf("%s, %s for %v", ClosedLoopNote, plural(l.Callers, "caller"), l.Duration())
	if l.Callers == 0 {
		var rates []string
		for _, s := range l.Stages {
			rates = append(rates, fmt.Sprintf("%s calls/s for %v", number(s.Rate), s.Duration))
		}
		text = "open loop, " + strings.Join(rates, ", then ")
	}
	if l.Warmup > 0 {
		text += fmt.Sprintf(", after %v of warm-up", l.Warmup)
	}
	return text
}

// warmingUp is the index of the warm-up where others are those of stages.
const warmingUp = -1

// timetable yields every call of an open loop, in order: its stage, and when it is due, from the
// beginning of the warm-up.
func (l *Load) timetable() iter.Seq2[int, time.Duration] {
	return func(yield func(int, time.Duration) bool) {
		begin := time.Duration(0)
		for i := warmingUp; i < len(l.Stages); i++ {
			s := Stage{l.Stages[max(i, 0)].Rate, l.Warmup}
			if i >= 0 {
				s = l.Stages[i]
			}
			for n := 0; ; n++ {
				due := time.Duration(float64(n) / s.Rate * float64(time.Second))
				if due >= s.Duration {
					break
				}
				if !yield(i, begin+due) {
					return
				}
			}
			begin += s.Duration
		}
	}
}

// ParseStages reads stages such as 100:10s,500:1m.
func ParseStages(text string) (stages []Stage, err error) {
	for part := range strings.SplitSeq(text, ",") {
		rate, duration, ok := strings.Cut(strings.TrimSpace(part), ":")
		if !ok {
			return nil, fmt.Errorf("%q: want rate:duration, such as 100:10s", part)
		}
		var s Stage
		var errRate, errDuration error
		s.Rate, errRate = strconv.ParseFloat(rate, 64)
		s.Duration, errDuration = time.ParseDuration(duration)
		if err := errors.Join(errRate, errDuration); err != nil {
			return nil, fmt.Errorf("%q: want rate:duration, such as 100:10s: %w", part, err)
		}
		stages = append(stages, s)
	}
	return stages, nil
}

// plural returns a number of things in words.
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// number prints a number with at most three digits after the point.
func number(v float64) string {
	return strconv.FormatFloat(round(v, thousandths), 'f', -1, 64)
}
