//go:build integration

package observe

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// prometheusServer is a Prometheus that runs.
type prometheusServer struct {
	t   *testing.T
	url string
	dir string
}

// window is what the ranges and pauses of dashboards and alerts are replaced by, so that the test
// does not wait for minutes.
const window = "10s"

// program returns the path of a program, and fails the test if it is not installed.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("please install prometheus, as make test-observe does: %v", err)
	}
	return path
}

// hastened returns alert rules that wait for seconds instead of minutes.
func hastened(rules string) string {
	rules = regexp.MustCompile(`\bfor: \w+`).ReplaceAllString(rules, "for: 1s")
	rules = regexp.MustCompile(`\[1h\]`).ReplaceAllString(rules, "[60s]")
	return regexp.MustCompile(`\[5m\]`).ReplaceAllString(rules, "["+window+"]")
}

// startPrometheus starts Prometheus with the rules; it scrapes the targets of each job, host:port.
func startPrometheus(t *testing.T, rules string, jobs map[string][]string) *prometheusServer {
	t.Helper()
	dir, port := t.TempDir(), registrytest.FreePort(t)
	config := "global: {scrape_interval: 500ms, evaluation_interval: 1s}\nrule_files: [rules.yaml]\nscrape_configs:\n"
	for job, targets := range jobs {
		config += fmt.Sprintf("- job_name: %s\n  static_configs: [{targets: ['%s']}]\n", job, strings.Join(targets, "', '"))
	}
	for name, text := range map[string]string{"rules.yaml": rules, "prometheus.yaml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := &prometheusServer{t: t, dir: dir, url: fmt.Sprintf("http://127.0.0.1:%d", port)}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program(t, "prometheus"), "--config.file", filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", fmt.Sprintf("127.0.0.1:%d", port), "--enable-feature", "exemplar-storage")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // the error only says that it was killed
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("the log of Prometheus:\n%s", text)
		}
	})
	p.until("Prometheus is ready", 20*time.Second, func() string {
		r, err := http.Get(p.url + "/-/ready")
		if err != nil {
			return err.Error()
		}
		_ = r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return r.Status
		}
		return ""
	})
	return p
}

// until waits until f returns "", and fails the test with its last answer if that takes too long.
func (p *prometheusServer) until(what string, limit time.Duration, f func() string) {
	p.t.Helper()
	began := time.Now()
	for {
		missing := f()
		if missing == "" {
			p.t.Logf("%s: after %v", what, time.Since(began).Round(100*time.Millisecond))
			return
		}
		if time.Since(began) > limit {
			p.t.Fatalf("%s: not within %v: %s", what, limit, missing)
		}
		time.Sleep(200 * time.Millisecond) // Prometheus is another process
	}
}

// ask sends a request to the API and decodes the data of the answer.
func (p *prometheusServer) ask(path string, params url.Values, data any) error {
	r, err := http.PostForm(p.url+"/api/v1/"+path, params)
	if path == "rules" || path == "alerts" || path == "targets" {
		r, err = http.Get(p.url + "/api/v1/" + path)
	}
	if err != nil {
		return err
	}
	defer r.Body.Close()
	answer := struct {
		Status string `json:"status"`
		Error  string `json:"error"`
		Data   any    `json:"data"`
	}{Data: data}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %w", r.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s", answer.Error)
	}
	return nil
}

// sample is one series of a result.
type sample struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
}

// known reports whether the sample has a number.
func (s sample) known() bool {
	text, _ := s.Value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	return err == nil && !math.IsNaN(v)
}

// query evaluates an expression now, and returns the series that have numbers.
func (p *prometheusServer) query(expr string) ([]sample, error) {
	var data struct {
		ResultType string
		Result     json.RawMessage
	}
	if err := p.ask("query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	var all, known []sample
	if data.ResultType != "vector" {
		return nil, fmt.Errorf("%s: a %s, not a vector", expr, data.ResultType)
	}
	if err := json.Unmarshal(data.Result, &all); err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.known() {
			known = append(known, s)
		}
	}
	return known, nil
}

// rule is an alert rule, as Prometheus has read it.
type rule struct {
	Name, Query, LastError string
	Annotations            map[string]string
	Alerts                 []struct{ State string }
}

// rules returns the alert rules by name.
func (p *prometheusServer) rules() (map[string]rule, error) {
	var data struct{ Groups []struct{ Rules []rule } }
	if err := p.ask("rules", nil, &data); err != nil {
		return nil, err
	}
	all := map[string]rule{}
	for _, g := range data.Groups {
		for _, r := range g.Rules {
			all[r.Name] = r
		}
	}
	return all, nil
}
