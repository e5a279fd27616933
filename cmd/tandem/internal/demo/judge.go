package demo

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// result has the data of a run that the checks use.
type result struct {
	planned int // planned calls
	stats   totals
	faults  []faultResult
	audit   audit
	servers map[string]int   // calls answered, by server
	started []string         // names of the servers that were started
	closing time.Duration    // how long the client took to close
	unclean map[string]error // errors of servers that did not shut down cleanly
}

// check is one condition that must hold.
type check struct {
	what string
	flaw string // why it does not hold; "" when it does
}

// judge returns every check.
func judge(r *result) []check {
	return []check{
		{"every call was answered, save those in doubt that must not run twice", lostCalls(r)},
		{"every answer was right", count(r.stats.wrong, "wrong answers")},
		{"nothing ran twice", ids(r.audit.twice, "executed more than once")},
		{"everything answered was executed", ids(r.audit.missing, "answered but in no journal")},
		{"what was said not to have run did not run", ids(r.audit.executedAnyway, "in a journal all the same")},
		{"at least 95 % of the planned calls were made", tooFew(r)},
		{"every server got calls", idle(r)},
		{"every fault took", faultless(r)},
		{"the restarted server serves again", resumed(r)},
		{"client and servers ended in time", lateEnd(r)},
	}
}

// passed reports whether all checks hold.
func passed(checks []check) bool {
	return !slices.ContainsFunc(checks, func(c check) bool { return c.flaw != "" })
}

func count(n int, what string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, what)
}

// lostCalls finds calls that failed although a retry would have been safe. Calls that may have
// run, and must not run twice, are not among them.
func lostCalls(r *result) string {
	return count(r.stats.failed, "calls failed")
}

// ids names the first few calls.
func ids(calls []int, what string) string {
	if len(calls) == 0 {
		return ""
	}
	text := fmt.Sprintf("%d calls %s: %v", len(calls), what, calls[:min(len(calls), 5)])
	return strings.TrimSpace(text)
}

func tooFew(r *result) string {
	if made := r.stats.made; made*100 < r.planned*95 {
		return fmt.Sprintf("%d of %d were made; %d were not, as %d were in flight", made, r.planned, r.stats.overflow, maxInFlight)
	}
	return ""
}

func idle(r *result) string {
	var flaws []string
	for _, name := range r.started {
		if r.servers[name] == 0 {
			flaws = append(flaws, name+" answered none")
		}
	}
	return strings.Join(flaws, "; ")
}

// faultless requires that each of the four kinds of fault happened and had its effect.
func faultless(r *result) string {
	var flaws []string
	for _, kind := range []faultKind{kill, restart, drain, join} {
		i := slices.IndexFunc(r.faults, func(f faultResult) bool { return f.kind == kind })
		switch {
		case i < 0:
			flaws = append(flaws, string(kind)+" did not happen")
		case r.faults[i].err != nil:
			flaws = append(flaws, r.faults[i].String())
		}
	}
	return strings.Join(flaws, "; ")
}

// resumed requires that the restarted server has answered calls since its restart.
func resumed(r *result) string {
	for _, f := range r.faults {
		if f.kind == restart && r.servers[f.server] <= f.before {
			return fmt.Sprintf("%s had answered %d calls when it was restarted, and no more since", f.server, f.before)
		}
	}
	return ""
}

// closeTime is how long a client without calls may take to close.
const closeTime = 2 * time.Second

func lateEnd(r *result) string {
	var flaws []string
	if r.closing > closeTime {
		flaws = append(flaws, fmt.Sprintf("the client took %v to close", r.closing.Round(time.Millisecond)))
	}
	for _, name := range r.started {
		if err := r.unclean[name]; err != nil {
			flaws = append(flaws, fmt.Sprintf("%s: %v", name, err))
		}
	}
	return strings.Join(flaws, "; ")
}
