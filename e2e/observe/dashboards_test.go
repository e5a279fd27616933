//go:build integration

package observe

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard is what the tests need of a dashboard's JSON.
type dashboard struct {
	UID        string `json:"uid"`
	Title      string `json:"title"`
	Templating struct {
		List []variable `json:"list"`
	} `json:"templating"`
	Panels []panel `json:"panels"`
}

type variable struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	Definition string `json:"definition"`
	Regex      string `json:"regex"`
}

type panel struct {
	ID         int    `json:"id"`
	Type       string `json:"type"`
	Title      string `json:"title"`
	Datasource struct {
		UID string `json:"uid"`
	} `json:"datasource"`
	Targets []target `json:"targets"`
}

// target is an expression of a panel.
type target struct {
	Expr         string `json:"expr"`
	LegendFormat string `json:"legendFormat"`
}

// expression is an expression of a dashboard, with the variables filled in.
type expression struct {
	where  string // file: title of the panel
	expr   string
	labels []string // that the legend shows
}

// readDashboards reads all dashboards, by the name of their file without its end.
func readDashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	paths, err := filepath.Glob("../../telemetry/dashboards/*.json")
	if err != nil || len(paths) != 4 {
		t.Fatal(paths, err)
	}
	all := map[string]dashboard{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		all[strings.TrimSuffix(filepath.Base(path), ".json")] = d
	}
	return all
}

// filled has the values of variables that the test uses.
var filled = strings.NewReplacer("$__rate_interval", window, "$job", ".*", "$instance", ".*", "$method", ".*", "$target", ".*", "$service", "Shop")

var inLegend = regexp.MustCompile(`{{(\w+)}}`)

func expressionsOf(all map[string]dashboard) (list []expression) {
	for file, d := range all {
		for _, p := range d.Panels {
			for _, of := range p.Targets {
				e := expression{where: file + ": " + p.Title, expr: filled.Replace(of.Expr)}
				for _, label := range inLegend.FindAllStringSubmatch(of.LegendFormat, -1) {
					e.labels = append(e.labels, label[1])
				}
				list = append(list, e)
			}
		}
	}
	return list
}

// TestDashboardFiles checks what needs no Prometheus: names are unique, the source of data is a
// variable, and the expressions use the variables that there are, and no others.
func TestDashboardFiles(t *testing.T) {
	uids := map[string]bool{}
	for file, d := range readDashboards(t) {
		if d.UID == "" || uids[d.UID] || d.Title == "" {
			t.Errorf("%s: uid %q, title %q", file, d.UID, d.Title)
		}
		uids[d.UID] = true
		var known []string
		for _, v := range d.Templating.List {
			known = append(known, v.Name)
		}
		ids := map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("%s: two panels have the id %d", file, p.ID)
			}
			ids[p.ID] = true
			if p.Type != "row" && (p.Datasource.UID != "${datasource}" || len(p.Targets) == 0) {
				t.Errorf("%s: %s: the source of data is %q", file, p.Title, p.Datasource.UID)
			}
			for _, of := range p.Targets {
				for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(of.Expr, -1) {
					if v[1] != "__rate_interval" && !slices.Contains(known, v[1]) {
						t.Errorf("%s: %s: no variable %s", file, p.Title, v[1])
					}
				}
			}
		}
	}
}

// exported are the metrics that docs/reference/metrics.md lists, which is compared with a scrape in
// telemetry/prom.
func exported(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{"up": true} // Prometheus's own
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (\\w+)").FindAllStringSubmatch(string(text), -1) {
		all[m[1]] = true
		if m[2] == "histogram" {
			all[m[1]+"_bucket"], all[m[1]+"_sum"], all[m[1]+"_count"] = true, true, true
		}
	}
	return all
}

// checkMetrics fails if an expression uses a metric that is not exported.
func checkMetrics(t *testing.T, where, expr string, known map[string]bool) {
	t.Helper()
	found := false
	plain := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expr, `""`)
	for _, name := range regexp.MustCompile(`\b(tandem_(server|client)_\w+|rpc_(server|client)_\w+|up)\b`).FindAllString(plain, -1) {
		found = true
		if !known[name] {
			t.Errorf("%s: no metric %s", where, name)
		}
	}
	if !found {
		t.Errorf("%s: no metric of tandem in %s", where, expr)
	}
}

// labelValues is the query of a variable.
var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// checkVariables fails if a variable of a dashboard has no values.
func checkVariables(p *prometheusServer, all map[string]dashboard) {
	for file, d := range all {
		for _, v := range d.Templating.List {
			if v.Type == "datasource" {
				continue
			}
			m := labelValues.FindStringSubmatch(filled.Replace(v.Definition))
			if m == nil {
				p.t.Errorf("%s: the variable %s is not label_values: %s", file, v.Name, v.Definition)
				continue
			}
			result, err := p.query(fmt.Sprintf(`count by (%s) (%s) and on (%[1]s) count by (%[1]s) ({%[1]s!=""})`, m[2], m[1]))
			if err != nil || len(result) == 0 {
				p.t.Errorf("%s: the variable %s has no values: %v", file, v.Name, err)
			}
			pattern := regexp.MustCompile(strings.Trim(v.Regex, "/"))
			for _, s := range result {
				if got := pattern.FindStringSubmatch(s.Metric[m[2]]); v.Regex != "" && (got == nil || got[1] != "Shop") {
					p.t.Errorf("%s: the variable %s makes %v of %s", file, v.Name, got, s.Metric[m[2]])
				}
			}
		}
	}
}
