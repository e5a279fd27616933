package main

import (
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// The instances of the cell in which most entries disappear from the registry.
const (
	listed   = 10
	vanished = 8 // instances whose entries are removed
	dead     = 4 // vanished instances that are also killed
)

// collapseCells returns the cell that removes most entries of a registry.
func collapseCells() []cell {
	load := light(20*time.Second, []string{"failover" + variantSafe, "failover", "failfast"})
	load.Rate = 200
	return []cell{{
		Name: "collapse-redis", Title: fmt.Sprintf("%d of %d entries disappear from redis, which refuses writes for 3 s; half of their servers are killed", vanished, listed),
		Systems: []string{sysTandem}, Short: true, Instances: listed, Registry: kindRedis, Load: load, At: 3 * time.Second,
		Fault: collapse, Judge: keepsTheLiving,
	}}
}

// collapse kills servers, removes entries, and makes redis refuse writes for 3 s, so that the
// living servers can't register again.
func collapse(r *rig) error {
	const list = "tandem:{lab/echo}"
	ids, err := r.redis("HKEYS " + list)
	if err != nil {
		return err
	}
	entries := strings.Fields(ids)
	if len(entries) != listed {
		return fmt.Errorf("the list has %d entries, want %d: %q", len(entries), listed, ids)
	}
	gone := r.entriesOf(entries)
	commands := "HDEL " + list + " " + gone + "\nZREM " + list + ":until " + gone + "\nPUBLISH " + list + " gone\nCONFIG SET min-replicas-to-write 1"
	for i := range dead {
		r.servers[i].kill()
	}
	if _, err := r.redis(commands); err != nil {
		return err
	}
	left, err := r.redis("HLEN " + list)
	if err != nil {
		return err
	}
	r.provef("%d servers killed, %s entries left of %d", dead, strings.TrimSpace(left), listed)
	r.wait(3 * time.Second)
	again, err := r.redis("HLEN " + list)
	if err == nil && strings.TrimSpace(left) != strings.TrimSpace(again) {
		err = fmt.Errorf("the list had %s entries at first and %s in the end", left, again)
	}
	if err != nil {
		return err
	}
	_, err = r.redis("CONFIG SET min-replicas-to-write 0")
	return err
}

// entriesOf returns those of ids that belong to servers 0 to vanished-1, separated by spaces.
// The killed servers are among them.
func (r *rig) entriesOf(ids []string) string {
	var gone []string
	for i := range vanished {
		for _, id := range ids {
			if strings.Contains(id, serverAddr(i)+":") {
				gone = append(gone, id)
			}
		}
	}
	return strings.Join(gone, " ")
}

// redis runs commands, one a line, with redis-cli and returns its output.
func (r *rig) redis(commands string) (string, error) {
	host, port, _ := strings.Cut(r.registry.port, ":")
	cmd := exec.Command("ip", "netns", "exec", r.registry.host, "redis-cli", "-h", host, "-p", port) //nolint:gosec // our words
	cmd.Stdin = strings.NewReader(commands + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "ERR") {
		return "", fmt.Errorf("redis-cli: %w: %s", err, out)
	}
	return string(out), nil
}

// keepsTheLiving is the bar that no idempotent call fails, that other calls fail only at the
// killed servers, and that the living servers continue to run calls.
func keepsTheLiving(o *outcome) []check {
	var checks []check
	for _, a := range o.tandems() {
		others := a.summary(func(e entry) bool { return !isSafe(e.Variant) })
		late := a.summary(func(e entry) bool { return e.at().After(a.began.Add(5 * time.Second)) })
		during := a.serversUsed(func(at time.Time) bool { return at.After(a.began.Add(time.Second)) && at.Before(a.ended) })
		checks = append(checks,
			atMost(a.String()+": idempotent calls failed", a.summary(isSafeEntry).Failed, 0),
			atMost(a.String()+": other calls failed, at most three for each kill", others.Failed, 3*dead),
			atMost(a.String()+": failed of the calls that began 5 s after the kill or later", late.Failed, 0),
			atLeast(a.String()+": servers that ran calls while the list was short", during, listed-dead))
	}
	return checks
}
