package loadtest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
)

// barWidth is the length of the longest bar of the histogram, in characters.
const barWidth = 30

// Print prints a result: as tables, or as a value.
func Print(p *listing.Printer, res *Result) error {
	if p.Format == listing.JSON || p.Format == listing.YAML {
		return p.Print(&listing.List{Value: res})
	}
	last := listing.List{Notes: about(res)}
	for _, w := range res.Warnings {
		last.Notes = append(last.Notes, "warning: "+w)
	}
	for i, l := range append(lists(res, p.Format == listing.Wide), last) {
		if i > 0 {
			if _, err := fmt.Fprintln(p.Out); err != nil {
				return err
			}
		}
		if err := p.Print(&l); err != nil {
			return err
		}
	}
	return nil
}

// lists returns the tables that are printed, one after the other.
func lists(res *Result, wide bool) []listing.List {
	all := []listing.List{summary(res), latencyList(res)}
	if len(res.Histogram) > 0 {
		all = append(all, histogramList(res))
	}
	if len(res.Stages) > 1 {
		all = append(all, stageList(res))
	}
	if len(res.Failures) > 0 {
		all = append(all, failureList(res))
	}
	if wide {
		all = append(all, secondList(res))
	}
	if res.Compared != nil {
		all = append(all, comparedList(res.Compared))
	}
	if len(res.Thresholds) > 0 {
		all = append(all, thresholdList(res))
	}
	return all
}

func summary(res *Result) listing.List {
	c := &res.Calls
	return listing.List{
		Columns: columns("CALLS", "OK", "FAILED", "NOT SENT", "ERRORS", "RATE"),
		Rows:    [][]string{{count(c.Due), count(c.OK), count(c.Failed), count(c.NotSent), percent(res.Errors), number(res.Rate) + "/s"}},
	}
}

func latencyList(res *Result) listing.List {
	l := listing.List{Columns: []listing.Column{{Name: "PERCENTILE"}, {Name: "LATENCY"}, {Name: "FAILED CALLS", Wide: true}}}
	failed := cmp.Or(res.Failed, new(Latencies))
	for i, row := range res.Latency.rows() {
		l.Rows = append(l.Rows, []string{row.name, latency(row.ms, res.Calls.OK), latency(failed.rows()[i].ms, res.Calls.Failed)})
	}
	return l
}

// namedLatency is a figure of latencies and its name.
type namedLatency struct {
	name string
	ms   float64
}

func (l *Latencies) rows() []namedLatency {
	return []namedLatency{
		{"min", l.Min}, {"mean", l.Mean}, {"p50", l.P50}, {"p90", l.P90}, {"p95", l.P95}, {"p99", l.P99}, {"p99.9", l.P999}, {"p99.99", l.P9999}, {"max", l.Max},
	}
}

// latency prints a latency of some calls, "" if there are none.
func latency(ms float64, calls int64) string {
	if calls == 0 {
		return ""
	}
	return shown(ms)
}

func histogramList(res *Result) listing.List {
	l := listing.List{Columns: columns("UP TO", "CALLS", "")}
	for _, b := range res.Histogram {
		l.Rows = append(l.Rows, []string{shown(b.To), count(b.Calls), bar(float64(b.Calls)/float64(mostCalls(res.Histogram)), barWidth)})
	}
	return l
}

func mostCalls(buckets []Bucket) int64 {
	return slices.MaxFunc(buckets, func(a, b Bucket) int { return cmp.Compare(a.Calls, b.Calls) }).Calls
}

// bar returns a bar for a share of a width, in eighths of a character.
func bar(share float64, width int) string {
	const eighths = 8
	n := int(share*float64(width*eighths) + 0.5) //nolint:mnd // rounds
	if share > 0 {
		n = max(n, 1)
	}
	text := strings.Repeat("█", n/eighths)
	if rest := n % eighths; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return cmp.Or(text, " ")
}

func stageList(res *Result) listing.List {
	l := listing.List{Columns: columns("STAGE", "CALLS/S DUE", "FOR", "RATE", "ERRORS", "P50", "P99", "MAX")}
	for i, s := range res.Stages {
		l.Rows = append(l.Rows, []string{
			strconv.Itoa(i + 1), number(s.Load), s.Duration, number(s.Rate) + "/s", percent(s.Errors),
			latency(s.P50, s.Calls.OK), latency(s.P99, s.Calls.OK), latency(s.Max, s.Calls.OK),
		})
	}
	return l
}

func failureList(res *Result) listing.List {
	l := listing.List{Columns: columns("FAILED WITH", "CALLS", "EXAMPLE")}
	for _, f := range res.Failures {
		l.Rows = append(l.Rows, []string{f.Code, count(f.Calls), f.Example})
	}
	return l
}

func secondList(res *Result) listing.List {
	l := listing.List{Columns: columns("SECOND", "RATE", "FAILED", "NOT SENT", "P50", "P90", "P99")}
	for _, s := range condensed(res.Seconds) {
		l.Rows = append(l.Rows, []string{
			strconv.Itoa(s.At), count(s.Rate) + "/s", count(s.Failed), count(s.NotSent), latency(s.P50, s.Rate), latency(s.P90, s.Rate), latency(s.P99, s.Rate),
		})
	}
	return l
}

func comparedList(c *Comparison) listing.List {
	l := listing.List{Columns: columns("COMPARED", "OLD", "NEW", "RATIO"), Notes: c.Notes}
	for _, r := range c.Rows {
		l.Rows = append(l.Rows, []string{r.What, r.old, r.new, r.text()})
	}
	return l
}

// text prints the ratio.
func (r *Ratio) text() string {
	if r.Ratio == 0 {
		return ""
	}
	return fmt.Sprintf("× %.2f", r.Ratio)
}

func thresholdList(res *Result) listing.List {
	l := listing.List{Columns: append(columns("THRESHOLD", "VALUE"), listing.Column{Name: "STATE", State: true})}
	for _, o := range res.Thresholds {
		l.Rows = append(l.Rows, []string{o.Threshold, o.Value, o.state()})
	}
	return l
}

func (o *Outcome) state() string {
	if o.Crossed {
		return "failed"
	}
	return "ok"
}

// about returns what was measured, and with what, in lines.
func about(res *Result) []string {
	return []string{
		fmt.Sprintf("%s at %s: %s, %s to each instance", res.Method, res.Target, res.Load.Text, plural(res.Load.Connections, "connection")),
		fmt.Sprintf("messages: requests of %d bytes, responses of %s on average", res.Bytes.Request, number(res.Bytes.Response)),
		"generator: " + res.Generator.String(),
	}
}

// String describes the generator in a line.
func (g *Generator) String() string {
	text := g.Machine.String()
	if g.CPU > 0 {
		text += fmt.Sprintf("; it used %.2f processors", g.CPU)
	}
	if g.Late.Max > 0 {
		text += fmt.Sprintf("; calls began late by %s at p50, %s at p99", shown(g.Late.P50), shown(g.Late.P99))
	}
	return text
}

func columns(names ...string) (list []listing.Column) {
	for _, name := range names {
		list = append(list, listing.Column{Name: name})
	}
	return list
}

func count(n int64) string { return strconv.FormatInt(n, 10) }
