package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
)

// Format is how a report is printed. Its methods make it the value of a flag.
type Format string

// The formats.
const (
	Text       Format = "text"
	JSON       Format = "json"
	Nagios     Format = "nagios"
	Prometheus Format = "prometheus"
)

// Formats returns all formats.
func Formats() []string {
	return []string{string(Text), string(JSON), string(Nagios), string(Prometheus)}
}

// String returns the format's name.
func (f *Format) String() string { return string(*f) }

// Set sets the format by its name.
func (f *Format) Set(name string) error {
	if !slices.Contains(Formats(), name) {
		return fmt.Errorf("want one of %s", strings.Join(Formats(), ", "))
	}
	*f = Format(name)
	return nil
}

// Type returns what help says of the flag's value.
func (f *Format) Type() string { return strings.Join(Formats(), "|") }

// Write prints a report.
func (r *Report) Write(w io.Writer, f Format, colored bool) error {
	var out string
	switch f {
	case JSON:
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		out = string(text) + "\n"
	case Nagios:
		out = r.nagios()
	case Prometheus:
		out = r.prometheus()
	default:
		return r.table(w, colored)
	}
	_, err := io.WriteString(w, out)
	return err
}

// table prints a line for each finding, with the hint below what is not well.
func (r *Report) table(w io.Writer, colored bool) error {
	p := &listing.Printer{Out: w, Color: colored}
	list := &listing.List{Columns: []listing.Column{{Name: "RESULT", State: true}, {Name: "CHECK"}, {Name: "SUBJECT"}, {Name: "WHAT"}}}
	for i := range r.Findings {
		f := &r.Findings[i]
		list.Rows = append(list.Rows, []string{f.Severity.String(), f.ID, f.Subject, f.Text})
		if f.Severity != OK && f.Hint != "" {
			list.Rows[len(list.Rows)-1][3] += " (" + f.Hint + ")"
		}
	}
	list.Notes = []string{r.Severity.String() + ": " + r.summary()}
	return p.Print(list)
}

// summary says in one line how many findings there are.
func (r *Report) summary() string {
	var parts []string
	for _, s := range []Severity{Critical, Warning, Unknown, OK} {
		if n := r.count(s); n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(parts, ", ")
}

// nagios returns the output of a Nagios plugin: a line with the worst findings and the measures,
// then a line for each finding. See the Nagios plugin development guidelines.
func (r *Report) nagios() string {
	var worst, measures []string
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Severity == r.Severity && f.Severity != OK {
			worst = append(worst, strings.TrimSpace(f.ID+" "+f.Subject)+": "+f.Text)
		}
		if f.Measure != nil {
			measures = append(measures, perfdata(f))
		}
	}
	what := strings.Join(worst, "; ")
	if what == "" {
		what = r.summary()
	}
	var out strings.Builder
	fmt.Fprintf(&out, "TANDEM %s - %s | %s\n", strings.ToUpper(r.Severity.String()), oneLine(what), strings.Join(measures, " "))
	for i := range r.Findings {
		f := &r.Findings[i]
		fmt.Fprintf(&out, "%s %s: %s\n", f.Severity, oneLine(strings.TrimSpace(f.ID+" "+f.Subject)), oneLine(f.Text))
	}
	return out.String()
}

// oneLine returns a text without control characters and without the character that separates
// measures.
func oneLine(text string) string {
	return strings.NewReplacer("\n", " ", "|", "/").Replace(listing.Printable(text))
}

// perfdata returns a measure as 'label'=value[unit];[warning];[critical].
func perfdata(f *Finding) string {
	label := strings.NewReplacer("'", "", "=", "").Replace(oneLine(strings.TrimSpace(f.ID + " " + f.Subject)))
	m := f.Measure
	text := fmt.Sprintf("'%s'=%s%s;%s;%s", label, number(m.Value), m.Unit, m.threshold(m.Warning), m.threshold(m.Critical))
	return strings.TrimRight(text, ";")
}

// threshold returns a limit in the syntax of ranges: outside of 0 to the limit is bad, or below it.
func (m *Measure) threshold(limit *float64) string {
	switch {
	case limit == nil:
		return ""
	case m.Least:
		return number(*limit) + ":"
	}
	return number(*limit)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// prometheus returns the report in the text format of Prometheus, as for the textfile collector of
// its node exporter.
func (r *Report) prometheus() string {
	target := label("target", r.Target)
	var out strings.Builder
	fmt.Fprintf(&out, "# HELP tandem_check_status The worst finding: 0 ok, 1 warning, 2 critical, 3 unknown.\n# TYPE tandem_check_status gauge\n")
	fmt.Fprintf(&out, "tandem_check_status{%s} %d\n", target, r.Code)
	fmt.Fprintf(&out, "# HELP tandem_check_time_seconds When the check was made, in seconds since 1970.\n# TYPE tandem_check_time_seconds gauge\n")
	fmt.Fprintf(&out, "tandem_check_time_seconds{%s} %s\n", target, number(float64(r.At.UnixMilli())/1000)) //nolint:mnd // milliseconds
	fmt.Fprintf(&out, "# HELP tandem_check_finding A finding: 0 ok, 1 warning, 2 critical, 3 unknown.\n# TYPE tandem_check_finding gauge\n")
	findings := r.distinct()
	for i := range findings {
		f := &findings[i]
		fmt.Fprintf(&out, "tandem_check_finding{%s,%s,%s} %d\n", target, label("id", f.ID), label("subject", f.Subject), int(f.Severity))
	}
	fmt.Fprintf(&out, "# HELP tandem_check_value What a check has measured, in the unit of its label.\n# TYPE tandem_check_value gauge\n")
	units := map[string]string{Seconds: "seconds", Percent: "percent", Count: "count"}
	for i := range findings {
		if f := &findings[i]; f.Measure != nil {
			fmt.Fprintf(&out, "tandem_check_value{%s,%s,%s,unit=%q} %s\n", target, label("id", f.ID), label("subject", f.Subject), units[f.Measure.Unit], number(f.Measure.Value))
		}
	}
	return out.String()
}

// distinct returns the worst finding of each check and subject, as a series must not occur twice.
func (r *Report) distinct() []Finding {
	var list []Finding
	at := make(map[[2]string]int)
	for i := range r.Findings {
		f := &r.Findings[i]
		key := [2]string{f.ID, f.Subject}
		n, known := at[key]
		switch {
		case !known:
			at[key] = len(list)
			list = append(list, *f)
		case f.Severity.rank() > list[n].Severity.rank():
			list[n] = *f
		}
	}
	return list
}

// label returns a label with its value escaped.
func label(name, value string) string {
	value = strings.ToValidUTF8(value, "\ufffd")
	return name + `="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(value) + `"`
}
