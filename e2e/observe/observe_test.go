//go:build integration

package observe

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// quiet are the expressions of dashboards that return nothing while all is well, with the trouble
// that makes them return something: see cluster.trouble. Alerts return nothing without theirs.
var quiet = map[string]string{
	"server: Errors":                      "a method fails",
	"server: Limits of methods":           "a method is overloaded",
	"client: Errors":                      "a method fails",
	"service: Share of calls that failed": "a method fails",
	"service: Errors by code":             "a method fails",
	"service: Limits of methods":          "a method is overloaded",
	"service: Errors by caller":           "a method fails",
}

// TestPrometheus starts Prometheus on a cluster. While all is well no alert may fire, and every
// expression of the dashboards must return data, but the quiet ones. Then there is trouble of every
// kind: then every expression must return data, and every alert must fire.
func TestPrometheus(t *testing.T) {
	const rules = "../../telemetry/alerts.yaml"
	if out, err := exec.Command(program(t, "promtool"), "check", "rules", rules).CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	text, err := os.ReadFile(rules)
	if err != nil {
		t.Fatal(err)
	}
	all, known := readDashboards(t), exported(t)
	expressions := expressionsOf(all)
	for _, e := range expressions {
		checkMetrics(t, e.where, e.expr, known)
	}
	c := startCluster(t)
	p := startPrometheus(t, hastened(string(text)), c.jobs())
	loaded, err := p.rules()
	if err != nil || len(loaded) != strings.Count(string(text), "- alert:") {
		t.Fatalf("%d rules of %d: %v", len(loaded), strings.Count(string(text), "- alert:"), err)
	}
	for name, r := range loaded {
		checkMetrics(t, name, r.Query, known)
		if len(r.Annotations["summary"]) < 20 || len(r.Annotations["runbook"]) < 60 {
			t.Errorf("%s says too little: %v", name, r.Annotations)
		}
	}
	p.until("all is well, and the dashboards have data", 25*time.Second, func() string {
		return withoutData(t, p, expressions, func(where string) bool { _, is := quiet[where]; return !is })
	})
	if loud := withoutData(t, p, expressions, func(where string) bool { _, is := quiet[where]; return is }); strings.Count(loud, ";") != len(quiet) {
		t.Errorf("while all is well, only these return nothing: %s; change the list of quiet expressions", loud)
	}
	checkVariables(p, all)
	if active := activeAlerts(t, p); len(active) > 0 {
		t.Errorf("alerts while all is well: %v", active)
	}

	c.trouble()
	p.until("there is trouble, and everything has data", 30*time.Second, func() string {
		return withoutData(t, p, expressions, func(string) bool { return true })
	})
	p.until("every alert fires", 30*time.Second, func() string {
		firing, missing := activeAlerts(t, p), []string{}
		for name := range loaded {
			if firing[name] != "firing" {
				missing = append(missing, name)
			}
		}
		slices.Sort(missing)
		return strings.Join(missing, ", ")
	})
	checkLegends(t, p, expressions)
	checkExemplars(p)
	for name, r := range loaded {
		if r.LastError != "" {
			t.Errorf("%s: %s", name, r.LastError)
		}
	}
}

// withoutData returns the places of the chosen expressions that return no data, each with a
// semicolon. An expression that can't be evaluated fails the test.
func withoutData(t *testing.T, p *prometheusServer, all []expression, chosen func(where string) bool) string {
	t.Helper()
	missing := map[string]bool{}
	for _, e := range all {
		if !chosen(e.where) {
			continue
		}
		result, err := p.query(e.expr)
		if err != nil {
			t.Fatalf("%s: %v", e.where, err)
		}
		if len(result) == 0 {
			missing[e.where+"; "] = true
		}
	}
	list := []string{}
	for where := range missing {
		list = append(list, where)
	}
	slices.Sort(list)
	return strings.Join(list, "")
}

// checkLegends fails if a label that a legend shows is not in every series.
func checkLegends(t *testing.T, p *prometheusServer, all []expression) {
	t.Helper()
	for _, e := range all {
		result, err := p.query(e.expr)
		if err != nil {
			t.Errorf("%s: %v", e.where, err)
		}
		for _, s := range result {
			for _, label := range e.labels {
				if _, has := s.Metric[label]; !has {
					t.Errorf("%s: the legend's label %s is not in %v", e.where, label, s.Metric)
				}
			}
		}
	}
}

// activeAlerts returns the state of the alerts that are not inactive, firing before pending.
func activeAlerts(t *testing.T, p *prometheusServer) map[string]string {
	t.Helper()
	rules, err := p.rules()
	if err != nil {
		t.Fatal(err)
	}
	active := map[string]string{}
	for name, r := range rules {
		for _, a := range r.Alerts {
			if active[name] != "firing" {
				active[name] = a.State
			}
		}
	}
	return active
}

// checkExemplars fails if Prometheus has no trace of a call at a server and at a client.
func checkExemplars(p *prometheusServer) {
	for _, side := range []string{"server", "client"} {
		var found []struct {
			Exemplars []struct{ Labels map[string]string }
		}
		now := time.Now()
		err := p.ask("query_exemplars", map[string][]string{
			"query": {"rpc_" + side + "_call_duration_seconds_bucket"},
			"start": {fmt.Sprint(now.Add(-time.Minute).Unix())}, "end": {fmt.Sprint(now.Add(time.Minute).Unix())},
		}, &found)
		if err != nil || len(found) == 0 || len(found[0].Exemplars) == 0 || len(found[0].Exemplars[0].Labels["trace_id"]) != 32 {
			p.t.Errorf("exemplars of the %s: %v, %v", side, found, err)
		}
	}
}
