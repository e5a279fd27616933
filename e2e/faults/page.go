package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// figures holds the table's numbers for a system in a cell, over all rounds.
type figures struct {
	made, failed int
	p99          time.Duration // median of the rounds
	slowest      time.Duration
}

// figuresOf returns the figures of a system with a congestion control, from its valid arms
// with the fault. ok is false if there are none.
func (c cellReport) figuresOf(system, cc string) (f figures, ok bool) {
	var p99s []time.Duration
	for _, a := range c.Arms {
		if a.System != system || a.CC != cc || a.Control || a.Invalid != "" {
			continue
		}
		f.made += a.Figures.Made
		f.failed += a.Figures.Failed
		f.slowest = max(f.slowest, a.Figures.Max)
		p99s = append(p99s, a.Figures.P99)
	}
	f.p99 = median(p99s)
	return f, len(p99s) > 0
}

// entry returns the figures as the table shows them: failed calls of all, p99, slowest.
func (c cellReport) entry(system, cc string) string {
	f, ok := c.figuresOf(system, cc)
	switch {
	case ok && f.failed == f.made:
		return fmt.Sprintf("%d of %d", f.failed, f.made)
	case ok:
		return fmt.Sprintf("%d of %d, %v, %v", f.failed, f.made, round(f.p99), round(f.slowest))
	case slices.ContainsFunc(c.Arms, func(a armReport) bool { return a.System == system && a.CC == cc && a.Invalid != "" }):
		return "can't start"
	}
	return ""
}

// ccs returns the congestion controls of the cell's arms, in the order in which they ran.
func (c cellReport) ccs() []string {
	var ccs []string
	for _, a := range c.Arms {
		if a.CC != "" && !slices.Contains(ccs, a.CC) {
			ccs = append(ccs, a.CC)
		}
	}
	return ccs
}

func (c cellReport) result() string {
	if c.OK {
		return "pass"
	}
	return "**fail**"
}

// mainPage returns the report's main page: a table of all cells, the bars that were missed,
// and how the lab measures.
func mainPage(last []cellReport, missing []cell) string {
	var b strings.Builder
	passed := 0
	for _, c := range last {
		if c.OK {
			passed++
		}
	}
	fmt.Fprintf(&b, "# Reliability: what the fault lab measured last\n\n")
	fmt.Fprintf(&b, "`make faults` writes this page. [The lab](../../e2e/faults/main.go) runs servers and clients as processes in network namespaces, "+
		"injects faults into them or their network under load, and compares the journals of clients and servers. **%d of %d cells pass.**\n\n", passed, len(last))
	fmt.Fprintf(&b, "A cell is an experiment: a load, a fault and bars, which are its pass criteria. An arm is one run of a cell. "+
		"The column of a system shows how many of its calls failed, then the 99th percentile and the maximum of the latency of the calls that succeeded, "+
		"counted from when a call was due. In a cell with several rounds, the percentile is the median of the rounds. "+
		"grpc-go and rpcx have their default settings. An empty column means that the system does not run in the cell. "+
		"A cell passes if tandem meets every bar. [The page of all arms](%s) shows the errors of each arm and the proof that the fault had an effect.\n\n", armsFile)
	fmt.Fprintf(&b, "| cell | what happens | | tandem | grpc-go | rpcx | result |\n|---|---|---|---|---|---|---|\n")
	for _, c := range last {
		for i, cc := range c.ccs() {
			name, title, result := "", "", ""
			if i == 0 {
				name, title, result = fmt.Sprintf("[%s](%s#%s)", c.Name, armsFile, c.Name), c.Title, c.result()
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n", name, inTable(title), cc,
				c.entry(sysTandem, cc), c.entry(sysGRPC, cc), c.entry(sysRPCX, cc), result)
		}
	}
	writeMissed(&b, last)
	fmt.Fprintf(&b, "\n## How it is measured\n\n%s", howMeasured)
	fmt.Fprintf(&b, "\n## Runs\n\n%d cores, Linux %s, %s.\n\n", runtime.NumCPU(), kernel(), runtime.Version())
	for _, run := range runsOf(last) {
		fmt.Fprintf(&b, "- %s\n", run)
	}
	if len(missing) > 0 {
		fmt.Fprintf(&b, "- Not run yet: %s\n", strings.Join(namesOf(missing), ", "))
	}
	return b.String()
}

const howMeasured = `- Calls begin on a fixed schedule, which does not wait for earlier calls. The latency and the deadline of a call count from its scheduled time.
- Clients and servers record each call by its number. In every cell, a call of tandem must not run twice unless it is idempotent,
  succeed without having run, run although its error says that it did not, or run without having been made by a client.
- Each system first runs a control arm without the fault, in which no call may fail. An arm with the fault is valid only if a proof
  shows that the fault had an effect, if 90 % of its scheduled calls were made, and if every server ran calls before the fault.
- Cells that need few resources run in parallel, each in its own network. Cells that need many, such as uploads and overload, run alone.
- nftables drops packets, NFQUEUE delays and reorders them, and tbf limits links, so the kernel's own retransmission handles these faults.
- Cells for which the congestion control matters run with cubic and with bbr.
- The cells clock-… step the clocks of processes, not the machine's clock: their binary is built with a time.Now that adds an offset.
- In the cells once-… every call has a key, and the client retries it up to ten times. In once-sql the handler records its execution in the
  transaction that has the call's record, so a row that was committed counts. A failed call of once-redis is undecided: see docs/howto/once.md.
- grpc-go and rpcx do not run in the cells with registries: their registry clients are other software. rpcx has no streams.
- Nacos is not in the lab: its server needs half a minute to start and 1 GB of memory. make test-nacos tests it. The tests of package registry cover outages of DNS.
- The plots in arms.md show, for each second, the slowest of the calls that began in it, and a cross if one of them failed.
`

// writeMissed lists the bars that were not met.
func writeMissed(b *strings.Builder, last []cellReport) {
	fmt.Fprintf(b, "\n## Bars missed\n\n")
	n := 0
	for _, c := range last {
		for _, m := range c.Missed {
			fmt.Fprintf(b, "- %s: %s\n", c.Name, inTable(m))
			n++
		}
	}
	if n == 0 {
		fmt.Fprintf(b, "None.\n")
	}
}

// runsOf returns a line for each run: its cells, and its build and settings.
func runsOf(last []cellReport) []string {
	byRun := map[string][]string{}
	var order []string
	for _, c := range last {
		if byRun[c.Run] == nil {
			order = append(order, c.Run)
		}
		byRun[c.Run] = append(byRun[c.Run], c.Name)
	}
	for i, run := range order {
		names := byRun[run]
		list := strings.Join(names, ", ")
		if len(names) > len(last)/2 {
			list = fmt.Sprintf("%d cells", len(names))
		}
		if run == "" {
			run = "an older version of the lab"
		}
		order[i] = list + ": " + run
	}
	return order
}

func namesOf(cells []cell) []string {
	var names []string
	for _, c := range cells {
		names = append(names, c.Name)
	}
	return names
}

// armsPage returns the page with every cell's plot, its arms and the bars that were missed.
func armsPage(last []cellReport) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Every arm of the fault lab's last runs\n\n[The main page](%s) has a table with one row for each cell. [%s](%s) has every bar.\n", mainFile, resultsFile, resultsFile)
	for _, c := range last {
		fmt.Fprintf(&b, "\n## %s\n\n%s. Result: %s, %s, %d bars.\n\n![the slowest call of each second](%s.svg)\n\n",
			c.Name, capital(c.Title), c.result(), c.When, len(c.Checks), c.Name)
		fmt.Fprintf(&b, "| arm | calls | failed | p50 | p99 | slowest | ran twice | errors | proof |\n|---|---|---|---|---|---|---|---|---|\n")
		for _, a := range c.Arms {
			if a.Invalid != "" {
				fmt.Fprintf(&b, "| %s | | | | | | | %s | |\n", a.Name, inTable(a.Invalid))
				continue
			}
			s := a.Figures
			fmt.Fprintf(&b, "| %s | %d | %d | %v | %v | %v | %d | %s | %s |\n", a.Name, s.Made, s.Failed,
				round(s.P50), round(s.P99), round(s.Max), s.Doubles, a.Errors, inTable(strings.Join(a.Proof, "; ")))
		}
		for _, m := range c.Missed {
			fmt.Fprintf(&b, "\nMissed: %s\n", inTable(m))
		}
	}
	return b.String()
}

// shorten returns at most five proofs: the first three, a count of those left out, and the
// last, which may be a sum.
func shorten(proofs []string) []string {
	const most = 4
	if len(proofs) <= most {
		return proofs
	}
	return append(slices.Clone(proofs[:most-1]), fmt.Sprintf("%d more", len(proofs)-most), proofs[len(proofs)-1])
}

// inTable replaces the characters that would break a cell of a Markdown table.
func inTable(text string) string {
	return strings.NewReplacer("|", "/", "\n", " ", "<", "&lt;").Replace(text)
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// kernel returns the kernel's release.
func kernel() string {
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		return "of unknown release"
	}
	var b strings.Builder
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c)) //nolint:gosec // ASCII
	}
	return b.String()
}
