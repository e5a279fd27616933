package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/loadtest"
)

func TestBenchCommandLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "r.json")
	if err := os.WriteFile(file, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flags, says string }{
		{"--rate 0", "--rate 0: want"},
		{"--rate 2000000", "at most 1000000"},
		{"--duration 0s", "without an end"},
		{"--duration 25h", "longer than 24h0m0s, which is the most"},
		{"--stages 1", "want rate:duration"},
		{"--stages 1:1s --rate 5", "--rate and --stages exclude"},
		{"--stages 1:1s --duration 5s", "--duration and --stages exclude"},
		{"--closed", "wants --callers"},
		{"--closed -c -1", "wants --callers"},
		{"--closed -c 1000000", "--callers 1000000: want"},
		{"--closed -c 1 --rate 5", "--rate is for an open loop"},
		{"--closed -c 1 --stages 1:1s", "--stages is for an open loop"},
		{"-c 5", "add --closed"},
		{"--connections 0", "want 1 to 64"},
		{"--timeout 0s", "--timeout 0s"},
		{"--max-in-flight 0", "--max-in-flight 0"},
		{"--threshold p99", "want a condition"},
		{"--threshold p99<1s,speed>1", `no metric "speed"`},
		{"--report r.pdf", ".html, .svg or .json"},
		{"--compare " + file, "no result of tandem bench"},
		{"--compare none.json", "none.json"},
		{"-H x", "want key=value"},
	} {
		args := append([]string{"bench"}, strings.Fields(c.flags)...)
		code, out, errs := cli(t, append(args, "tcp://127.0.0.1:1", "A.B", "{}")...)
		if code != exitUsage || out != "" || !strings.Contains(errs, c.says) {
			t.Errorf("%s: exit %d, %s%s", c.flags, code, out, errs)
		}
	}
}

// bench runs a load test for a short time, and returns its result.
func bench(t *testing.T, want int, args ...string) *loadtest.Result {
	t.Helper()
	code, out, errs := cli(t, append([]string{"bench", "-q", "-o", "json", "--warmup", "20ms"}, args...)...)
	res := new(loadtest.Result)
	if err := json.Unmarshal([]byte(out), res); err != nil || code != want {
		t.Fatalf("%q: exit %d, %v: %s%s", args, code, err, out, errs)
	}
	return res
}

// TestBenchProtocols sends load over every protocol of tandem call, and through a registry.
func TestBenchProtocols(t *testing.T) {
	list := "file://" + filepath.ToSlash(t.TempDir())
	r := startServe(t, "--registry", list)
	address := strings.TrimPrefix(r.target, "tcp://")
	targets := []string{list}
	for _, scheme := range []string{"tcp", "jsonrpc", "jsonrpc+http", "rpcx", "connect", "grpc"} {
		targets = append(targets, scheme+"://"+address)
	}
	for _, target := range targets {
		res := bench(t, exitOK, "--rate", "200", "--duration", "100ms", "--connections", "2", target, "Arith.Mul", `{"A":7,"B":8}`)
		if res.Calls.OK != 20 || res.Calls.Due != 20 || res.Bytes != (loadtest.Bytes{Request: 13, Response: 8}) || res.Target != target {
			t.Errorf("%s: %+v, %+v", target, res.Calls, res.Bytes)
		}
	}
	res := bench(t, exitOK, "--rate", "200", "--duration", "100ms", "grpc://"+address, "grpc.health.v1.Health.Check", `{"service":"Arith"}`)
	if res.Calls.OK != 20 || res.Bytes != (loadtest.Bytes{Request: 7, Response: 2}) {
		t.Errorf("%+v, %+v", res.Calls, res.Bytes)
	}
	res = bench(t, exitOK, "--closed", "-c", "3", "--duration", "100ms", "-n", r.target, "Arith.Div", `[17,5]`)
	if res.Calls.OK < 3 || res.Load.Note != loadtest.ClosedLoopNote {
		t.Errorf("closed loop: %+v, %+v", res.Calls, res.Load)
	}
}

// TestBenchSendsNothing where the first call shows that others would fail, too.
func TestBenchSendsNothing(t *testing.T) {
	r := startServe(t)
	address := strings.TrimPrefix(r.target, "tcp://")
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{r.target, "Arith.Sub", "{}"}, 22, "no load was sent"},
		{[]string{"-n", r.target, "Arith.Div", "[1,0]"}, 13, "divided by zero"},
		{[]string{"tcp://127.0.0.1:1", "Arith.Mul"}, 24, "no load was sent"},
		{[]string{"odd://x", "Arith.Mul"}, exitUsage, "want a target"},
		{[]string{r.target, "Arith.Mul", "{"}, exitUsage, "is not JSON"},
		{[]string{"netrpc://" + address, "Arith.Mul", `{"a":7}`}, exitUsage, "can't be a field"},
		{[]string{"grpc://" + address, "grpc.health.v1.Health.Watch"}, exitUsage, "only unary methods"},
	} {
		start := time.Now()
		code, out, errs := cli(t, append([]string{"bench", "--duration", "1m"}, c.args...)...)
		if code != c.code || out != "" || !strings.Contains(errs, c.says) || time.Since(start) > 30*time.Second {
			t.Errorf("%q: exit %d, %s%s", c.args, code, out, errs)
		}
	}
}

// TestBenchThresholds: what is crossed is said on standard error, after the result.
func TestBenchThresholds(t *testing.T) {
	r := startServe(t)
	args := []string{"bench", "-q", "--rate", "100", "--duration", "100ms", "--warmup", "0s", r.target, "Arith.Mul", `{"A":7,"B":8}`, "--threshold"}
	code, out, errs := cli(t, append(args, "p50<1h, errors<1%", "--threshold", "rate>1")...)
	if code != exitOK || errs != "" || strings.Count(out, " ok\n") != 3 {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
	code, out, errs = cli(t, append(args, "max<1ns", "--threshold", "rate>5000,errors<=0%")...)
	if code != exitThreshold || !strings.Contains(errs, "tandem: threshold max<1ns: it is ") || !strings.Contains(errs, "\nthreshold rate>5000: it is ") || strings.Contains(errs, "errors") || strings.Count(out, " failed\n") != 2 {
		t.Errorf("exit %d, %s%s", code, out, errs)
	}
}

// TestBenchReports writes every kind of report, and compares with one.
func TestBenchReports(t *testing.T) {
	r := startServe(t)
	dir := t.TempDir()
	old, page, curve := filepath.Join(dir, "old.json"), filepath.Join(dir, "r.html"), filepath.Join(dir, "r.svg")
	load := []string{"--rate", "100", "--duration", "100ms", r.target, "Arith.Mul", `{"A":7,"B":8}`}
	bench(t, exitOK, append(load, "--report", old, "--report", page, "--report", curve)...)
	for file, want := range map[string]string{old: `"method": "Arith.Mul"`, page: "<!DOCTYPE html>", curve: "<svg "} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
	res := bench(t, exitOK, append(load, "--compare", old)...)
	if c := res.Compared; c == nil || len(c.Rows) != 8 || c.Rows[0].What != "rate" || c.Rows[0].Ratio == 0 || len(c.Notes) != 0 {
		t.Errorf("compared: %+v", c)
	}
}

// TestBenchInterrupted prints what there is.
func TestBenchInterrupted(t *testing.T) {
	r := startServe(t)
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	var out, errs strings.Builder
	code := run(ctx, &shell{strings.NewReader(""), &out, &errs}, []string{"bench", "--warmup", "0s", "--duration", "1h", "--threshold", "rate>1000000", r.target, "Arith.Mul", "{}"})
	if code != exitInterrupted || !strings.Contains(out.String(), "\np50 ") || !strings.Contains(out.String(), "warning: interrupted") || !strings.Contains(errs.String(), "100 calls/s for 1h0m0s") {
		t.Errorf("exit %d, %s%s", code, &out, &errs)
	}
}

func TestVerdict(t *testing.T) {
	crossed := []loadtest.Outcome{{Threshold: "p99<1ms", Value: "2 ms", Crossed: true}}
	for _, c := range []struct {
		res     loadtest.Result
		crossed []loadtest.Outcome
		want    int
	}{
		{loadtest.Result{Calls: loadtest.Counts{OK: 1}}, nil, exitOK},
		{loadtest.Result{Calls: loadtest.Counts{OK: 1}}, crossed, exitThreshold},
		{loadtest.Result{Interrupted: true}, crossed, exitInterrupted},
		{loadtest.Result{Calls: loadtest.Counts{Failed: 1}}, nil, exitFailed},
		{loadtest.Result{Calls: loadtest.Counts{Failed: 1}}, crossed, exitThreshold},
	} {
		if err := verdict(&c.res, c.crossed); exitCode(err) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestIsHopeless: load is sent although a first call failed in a way that others need not.
func TestIsHopeless(t *testing.T) {
	for code, want := range map[tandem.Code]bool{tandem.Unavailable: true, tandem.Unimplemented: true, tandem.Internal: false, tandem.DeadlineExceeded: false, tandem.ResourceExhausted: false, tandem.NotFound: false} {
		if isHopeless(tandem.Errorf(code, "x")) != want {
			t.Errorf("%s is hopeless: %v", code, !want)
		}
	}
	if isHopeless(nil) {
		t.Error("success is hopeless")
	}
}
