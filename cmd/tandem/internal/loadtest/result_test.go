package loadtest

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
)

func TestBuckets(t *testing.T) {
	h := newHistogram(digits)
	for _, us := range []int{3, 4, 150, 1500, 1600, 700_000} {
		record(h, time.Duration(us)*time.Microsecond)
	}
	got := buckets(h)
	var sum int64
	for i, b := range got {
		sum += b.Calls
		if i > 0 && b.From != got[i-1].To {
			t.Errorf("a gap before %+v", b)
		}
	}
	if first, last := got[0], got[len(got)-1]; sum != 6 || first != (Bucket{0.002, 0.005, 2}) || last != (Bucket{500, 1000, 1}) || len(got) != 17 {
		t.Errorf("%+v", got)
	}
	if got := buckets(newHistogram(digits)); got == nil || len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestCurve(t *testing.T) {
	got := curve(measured(0).histogram)
	if first, last := got[0], got[len(got)-1]; first.Percentile != 0 || first.Latency > 1.001 || last.Percentile != 100 || last.Latency < 99.9 || len(got) != 42 {
		t.Errorf("%d points: %+v", len(got), got)
	}
	if !slices.IsSortedFunc(got, func(a, b Percentile) int { return int(1e6 * (a.Percentile - b.Percentile)) }) {
		t.Errorf("not sorted: %+v", got)
	}
}

func TestShown(t *testing.T) {
	for ms, want := range map[float64]string{
		0: "0.000 ms", 0.0123: "0.012 ms", 0.9996: "1.00 ms", 1.234: "1.23 ms", 9.996: "10.0 ms", 12.34: "12.3 ms", 99.96: "100 ms", 123.4: "123 ms", 999.6: "1.00 s", 12_345: "12.35 s",
	} {
		if got := shown(ms); got != want {
			t.Errorf("%v: %s, want %s", ms, got, want)
		}
	}
}

func TestBar(t *testing.T) {
	for share, want := range map[float64]string{0: " ", 1: "████", 0.5: "██", 0.0001: "▏", 0.53125: "██▏"} {
		if got := bar(share, 4); got != want {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
}

// everything returns a result with everything in it.
func everything() *Result {
	res := measured(3)
	res.Target, res.Method = "tcp://h1:1", "Arith.Mul"
	res.At = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	load := open(Stage{100, time.Second}, Stage{200, time.Second})
	res.Load = settingOf(&load)
	res.Load.Connections, res.Load.Timeout = 1, "5s"
	res.Calls = Counts{Due: 105, OK: 100, Failed: 3, NotSent: 2}
	res.Errors = res.Calls.errors()
	res.Failed = &Latencies{P50: 1, Max: 2}
	res.Failures = []Failure{{"not found", 3, "no <b>book</b>\x1b[31m"}}
	res.Stages = []StageResult{{Load: 100, Duration: "1s", Calls: Counts{OK: 50}, Rate: 50, P50: 1, P99: 2, Max: 3}, {Load: 200, Duration: "1s", Errors: 0.5}}
	res.Seconds = []Second{{0, 50, 0, 0, 1, 2, 3}, {1, 50, 3, 2, 1, 2, 3}, {At: 2}}
	res.Percentiles, res.Histogram = curve(res.histogram), buckets(res.histogram)
	res.Generator = Generator{Machine{"A Processor", 2, "linux", "amd64", "go1.26", 2}, 0.5, Lateness{0.1, 0.2, 0.3}}
	res.Warnings = []string{"something is odd"}
	old := *res
	old.Latency.P99, old.Errors, old.Load.Text = 50, 0, "open loop, another one"
	res.Compare(&old)
	limit, _ := ParseThreshold("p99<20ms")
	other, _ := ParseThreshold("rate>10")
	res.Judge([]Threshold{limit, other})
	return res
}

const wantTable = `CALLS  OK   FAILED  NOT SENT  ERRORS  RATE
105    100  3       2         4.76%   100/s

PERCENTILE  LATENCY
min         1.00 ms
mean        50.5 ms
p50         50.0 ms
p90         90.0 ms
p95         95.0 ms
p99         99.0 ms
p99.9       100 ms
p99.99      100 ms
max         100 ms

UP TO    CALLS  
1.00 ms  1      ▋
2.00 ms  1      ▋
5.00 ms  3      █▊
10.0 ms  5      ███
20.0 ms  10     ██████
50.0 ms  30     ██████████████████
100 ms   50     ██████████████████████████████

STAGE  CALLS/S DUE  FOR  RATE  ERRORS  P50      P99      MAX
1      100          1s   50/s  0%      1.00 ms  2.00 ms  3.00 ms
2      200          1s   0/s   50%     -        -        -

FAILED WITH  CALLS  EXAMPLE
not found    3      no <b>book</b> [31m

COMPARED  OLD      NEW      RATIO
rate      100/s    100/s    × 1.00
errors    0%       4.76%    -
mean      50.5 ms  50.5 ms  × 1.00
p50       50.0 ms  50.0 ms  × 1.00
p90       90.0 ms  90.0 ms  × 1.00
p99       50.0 ms  99.0 ms  × 1.98
p99.9     100 ms   100 ms   × 1.00
max       100 ms   100 ms   × 1.00
another load than before: open loop, 100 calls/s for 1s, then 200 calls/s for 1s, was open loop, another one

THRESHOLD  VALUE    STATE
p99<20ms   99.0 ms  failed
rate>10    100/s    ok

Arith.Mul at tcp://h1:1: open loop, 100 calls/s for 1s, then 200 calls/s for 1s, 1 connection to each instance
messages: requests of 0 bytes, responses of 0 on average
generator: A Processor, 2 processors, linux/amd64, go1.26, GOMAXPROCS 2; it used 0.50 processors; calls began late by 0.100 ms at p50, 0.200 ms at p99
warning: something is odd
`

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := Print(&listing.Printer{Out: &out}, everything()); err != nil {
		t.Fatal(err)
	}
	if out.String() != wantTable {
		t.Errorf("got\n%s\nwant\n%s", &out, wantTable)
	}
	out.Reset()
	if err := Print(&listing.Printer{Out: &out, Format: listing.Wide}, everything()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"FAILED CALLS\n", "max         100 ms   2.00 ms\n", "SECOND  RATE", "1       50/s  3       2         1.00 ms  2.00 ms  3.00 ms\n", "2       0/s   0       0         -"} {
		if !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
