package loadtest

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// write writes a report and returns it.
func write(t *testing.T, res *Result, name string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := CheckReport(file); err != nil {
		t.Fatal(err)
	}
	if err := res.Write(file); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// elsewhere matches what makes a page load something.
var elsewhere = regexp.MustCompile(`(?i)://|"//|\bsrc\s*=|\bhref\s*=|url\(|@import|<script|<link|<iframe|<object|<embed|<img|http-equiv="refresh"|\bon\w+=`)

// TestPageLoadsNothing: the page names no other origin, and has no scripts.
func TestPageLoadsNothing(t *testing.T) {
	res := everything()
	res.Failures[0].Example = `<script src="https://evil.example/x.js"></script><img onerror=x>`
	page := write(t, res, "r.html")
	if strings.Contains(page, "<script") || strings.Contains(page, "<img") {
		t.Error("a message of a server is not escaped")
	}
	for _, own := range []string{res.Target, ` xmlns="http://www.w3.org/2000/svg"`, "&lt;script src=&#34;https://evil.example/x.js&#34;&gt;&lt;/script&gt;&lt;img onerror=x&gt;"} {
		if !strings.Contains(page, own) {
			t.Errorf("no %s", own)
		}
		page = strings.ReplaceAll(page, own, "")
	}
	if found := elsewhere.FindString(page); found != "" {
		t.Errorf("it has %q:\n%s", found, page)
	}
	for _, want := range []string{
		"default-src 'none'", "prefers-color-scheme: dark", "<h1>Arith.Mul at ", "<th>PERCENTILE</th>", "<td>p99</td><td>99.0 ms</td>", "<td>× 1.98</td>",
		"<td>failed</td>", "Warning: something is odd.", "2026-01-02 03:04:05 UTC", "<th>SECOND</th>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if n := strings.Count(page, "<svg"); n != 3 {
		t.Errorf("%d charts", n)
	}
}

func TestChartsAreXML(t *testing.T) {
	res := everything()
	res.Method = `A<"&'>`
	empty := &Result{Load: Setting{Text: "x"}}
	few := measured(0)
	few.Percentiles = few.Percentiles[:0]
	for _, svg := range append(append(timeCharts(res), timeCharts(few)...), write(t, res, "r.svg"), write(t, empty, "r.svg"), percentileChart(few)) {
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || !strings.Contains(svg, "prefers-color-scheme:dark") {
			t.Errorf("%s", svg)
		}
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%v in\n%s", err, svg)
			}
		}
	}
	svg := percentileChart(res)
	for _, want := range []string{">p99<", ">100 ms<", ">1.00 ms<", `class="line old"`, "A&lt;"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
}

// TestLongRunsHaveShortCharts: a day has 86,400 seconds.
func TestLongRunsHaveShortCharts(t *testing.T) {
	res := everything()
	res.Seconds = make([]Second, 86_400)
	for i := range res.Seconds {
		res.Seconds[i] = Second{At: i, Rate: 100, P99: 1}
	}
	res.Seconds[5000].P99, res.Seconds[5001].Rate = 9, 7
	list := condensed(res.Seconds)
	worst, least := 0.0, int64(100)
	for _, s := range list {
		worst, least = max(worst, s.P99), min(least, s.Rate)
	}
	if len(list) > 400 || worst != 9 || least != 7 {
		t.Errorf("%d points, worst %v, least %v", len(list), worst, least)
	}
	for _, svg := range timeCharts(res) {
		if len(svg) > 20_000 {
			t.Errorf("%d bytes", len(svg))
		}
	}
}

// TestReadsItsReports: what is written can be compared with.
func TestReadsItsReports(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	res := everything()
	if err := res.Write(file); err != nil {
		t.Fatal(err)
	}
	old, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	if old.Latency != res.Latency || len(old.Percentiles) != len(res.Percentiles) || old.Failures[0] != res.Failures[0] {
		t.Errorf("got %+v", old)
	}
	if old.Compared.Rows[5].Ratio != 1.98 {
		t.Errorf("compared %+v", old.Compared)
	}
	for name, text := range map[string]string{"is no JSON": "x", "no result of tandem bench": `{"target":"x"}`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(file); err == nil || name != "is no JSON" && !strings.Contains(err.Error(), name) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := Read(file + "x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestCheckReport(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		filepath.Join(dir, "r.pdf"):          "want a name that ends with",
		filepath.Join(dir, "none", "r.html"): "none",
		filepath.Join(file, "r.html"):        "",
	} {
		if err := CheckReport(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := new(Result).Write(filepath.Join(dir, "none", "r.json")); err == nil || !strings.Contains(err.Error(), "writing the report") {
		t.Errorf("%v", err)
	}
	var out bytes.Buffer
	if err := everything().page(&out); err != nil || out.Len() < 1000 {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
}
