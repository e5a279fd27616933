package demo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// row is one server, or the total.
type row struct {
	name     string
	state    state
	pid      int // 0 for none
	answered int
	figures
}

// view has the figures that are shown at one time.
type view struct {
	elapsed, span time.Duration
	servers       []row
	total         row
	counts        totals
}

// table renders a view for a terminal, in lines of fewer than 80 characters.
func table(v *view) []string {
	lines := []string{
		fmt.Sprintf("%-8s %8s %-9s %9s %10s %10s %10s", "server", "pid", "state", "calls/s", "p50", "p99", "answered"),
	}
	for _, r := range append(slices.Clip(v.servers), v.total) {
		lines = append(lines, tableRow(&r))
	}
	c := &v.counts
	return append(lines,
		fmt.Sprintf("%s  ok %d  failed %d  retried %d  unknown %d  moved %d  not made %d",
			clock(v.elapsed), c.ok, c.failed+c.wrong, c.retried, c.unknown, c.moved, c.overflow))
}

func tableRow(r *row) string {
	pid := ""
	if r.pid > 0 {
		pid = strconv.Itoa(r.pid)
	}
	return fmt.Sprintf("%-8s %8s %-9s %9.0f %10s %10s %10d", r.name, pid, r.state, r.rate, millis(r.p50), millis(r.p99), r.answered)
}

// line renders a view as one line, for files and pipes.
func line(v *view) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %4.0f/s p50 %s p99 %s", clock(v.elapsed), v.total.rate, millis(v.total.p50), millis(v.total.p99))
	c := &v.counts
	fmt.Fprintf(&b, "  ok %d failed %d retried %d unknown %d |", c.ok, c.failed+c.wrong, c.retried, c.unknown)
	for _, r := range v.servers {
		if r.state == serving {
			fmt.Fprintf(&b, " %s %.0f/s", r.name, r.rate)
		} else {
			fmt.Fprintf(&b, " %s %s", r.name, r.state)
		}
	}
	return b.String()
}

func clock(d time.Duration) string { return fmt.Sprintf("%5.1fs", d.Seconds()) }

func millis(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}

// view returns what to show now.
func (r *run) view(elapsed time.Duration) *view {
	return r.look(elapsed, (*latencies).lastSecond)
}

// summary returns the figures of the whole run.
func (r *run) summary() *view {
	span := r.cfg.Duration
	return r.look(span, func(l *latencies) figures { return l.total(span) })
}

func (r *run) look(elapsed time.Duration, of func(*latencies) figures) *view {
	v := &view{elapsed: elapsed, span: r.cfg.Duration, counts: r.stats.totals(), total: row{name: "total"}}
	for _, name := range r.cluster.names() {
		p, s := r.cluster.get(name)
		server := row{name: name, state: s, pid: p.pid()}
		r.stats.read(name, func(l *latencies) { server.answered, server.figures = l.answered, of(l) })
		v.servers = append(v.servers, server)
		v.total.answered += server.answered
	}
	r.stats.read("", func(l *latencies) { v.total.figures = of(l) })
	return v
}
