package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// limitPair is a flag with two thresholds, of a warning and of a critical finding: "500ms,2s". One
// that is left out stays as it is.
type limitPair[T any] struct {
	warning, critical *T
	parse             func(text string) (T, error)
	format            func(v T) string
	form              string // what the help says of each of them
}

// String returns the thresholds.
func (p *limitPair[T]) String() string {
	if p.warning == nil { // pflag asks for the text of a zero value
		return ""
	}
	return p.format(*p.warning) + "," + p.format(*p.critical)
}

// Set sets the thresholds.
func (p *limitPair[T]) Set(text string) error {
	warning, critical, both := strings.Cut(text, ",")
	if !both {
		return fmt.Errorf("want WARNING,CRITICAL, such as %s", p)
	}
	for _, one := range []struct {
		text string
		to   *T
	}{{warning, p.warning}, {critical, p.critical}} {
		if one.text == "" {
			continue
		}
		v, err := p.parse(one.text)
		if err != nil {
			return err
		}
		*one.to = v
	}
	return nil
}

// Type returns what help says of the flag's value.
func (p *limitPair[T]) Type() string { return p.form + "," + p.form }

// timeLimits adds a flag with two durations.
func timeLimits(set *pflag.FlagSet, name, usage string, warning, critical *time.Duration) {
	set.Var(&limitPair[time.Duration]{warning, critical, parseDays, formatDays, "duration"}, name, usage)
}

const day = 24 * time.Hour

// parseDays parses a duration, or days such as 21d.
func parseDays(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * day, err
	}
	return time.ParseDuration(text)
}

func formatDays(d time.Duration) string {
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}

// percentLimits adds a flag with two percentages.
func percentLimits(set *pflag.FlagSet, name, usage string, warning, critical *float64) {
	parse := func(text string) (float64, error) { return strconv.ParseFloat(strings.TrimSuffix(text, "%"), 64) }
	format := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	set.Var(&limitPair[float64]{warning, critical, parse, format, "percent"}, name, usage)
}
