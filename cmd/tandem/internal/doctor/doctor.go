// Package doctor looks for what is wrong with a service: its registry, its instances and their
// endpoints, certificates, clocks, and what operators have set. [Judge] makes findings of facts
// and is pure; [Probe] connects to one endpoint.
package doctor

import (
	"cmp"
	"slices"
	"time"
)

// Severity says how bad a finding is. The values are the exit codes of Nagios plugins.
type Severity int

// The severities.
const (
	OK Severity = iota
	Warning
	Critical
	Unknown // it can't be found out
)

// String returns the severity's name.
func (s Severity) String() string {
	return [...]string{"ok", "warning", "critical", "unknown"}[min(max(s, OK), Unknown)]
}

// MarshalText returns the severity's name.
func (s Severity) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// rank orders severities: what is known to be bad counts more than what is not known.
func (s Severity) rank() int { return [...]int{0, 2, 3, 1}[min(max(s, OK), Unknown)] }

// The units of measures.
const (
	Seconds = "s"
	Count   = ""
	Percent = "%"
)

// Measure is a number with its thresholds.
type Measure struct {
	Value    float64  `json:"value"`
	Unit     string   `json:"unit,omitempty"`     // s or %; none for counts
	Warning  *float64 `json:"warning,omitempty"`  // nil for none
	Critical *float64 `json:"critical,omitempty"` // nil for none
	Least    bool     `json:"least,omitempty"`    // values below the thresholds are bad, not those above
}

// severity compares the measure with its thresholds.
func (m *Measure) severity() Severity {
	beyond := func(limit *float64) bool {
		return limit != nil && (m.Least && m.Value < *limit || !m.Least && m.Value > *limit)
	}
	switch {
	case beyond(m.Critical):
		return Critical
	case beyond(m.Warning):
		return Warning
	}
	return OK
}

// Finding is the result of one check.
type Finding struct {
	ID       string   `json:"id"` // of the check, such as tls.expiry; it stays
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject,omitempty"` // what it is about, such as an instance; "" for the target
	Text     string   `json:"text"`
	Hint     string   `json:"hint,omitempty"` // what to do, unless all is well
	Measure  *Measure `json:"measure,omitempty"`
}

// Report is what was found.
type Report struct {
	Target   string    `json:"target"`
	At       time.Time `json:"at"`
	Severity Severity  `json:"severity"` // the worst
	Code     int       `json:"code"`     // the exit code
	Findings []Finding `json:"findings"`
}

// NewReport returns a report of findings, in their order.
func NewReport(target string, at time.Time, findings []Finding) *Report {
	r := &Report{Target: target, At: at.UTC().Truncate(time.Millisecond), Findings: findings}
	if len(findings) > 0 {
		r.Severity = slices.MaxFunc(findings, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) }).Severity
	}
	r.Code = int(r.Severity)
	return r
}

// count returns how many findings have a severity.
func (r *Report) count(s Severity) (n int) {
	for i := range r.Findings {
		if r.Findings[i].Severity == s {
			n++
		}
	}
	return n
}
