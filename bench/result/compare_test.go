package result

import (
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/bench/harness"
)

func compareText(t *testing.T, older, newer *harness.Report) string {
	t.Helper()
	var b strings.Builder
	if err := Compare(&b, older, newer); err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

func TestCompare(t *testing.T) {
	text := compareText(t, sampleReport(1000), sampleReport(1200))
	for _, want := range []string{
		"shared, 100 callers", "percaller, 1000 callers",
		"netrpc calls/s 750 (500–1000) 900 (600–1200) 1.20 (0.60–2.40) overlap",
		"tandem p99 µs 50 (50–50) 50 (50–50) 1.00 (1.00–1.00) overlap",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the comparison lacks %q:\n%s", want, text)
		}
	}
	if text := compareText(t, sampleReport(1000), sampleReport(3000)); !strings.Contains(text, "netrpc calls/s 750 (500–1000) 2250 (1500–3000) 3.00 (1.50–6.00) apart") {
		t.Errorf("what is three times as fast is not apart:\n%s", text)
	}
	if strings.Contains(text, "machines differ") {
		t.Error("a machine differs from itself")
	}
}

func TestCompareSaysWhenMachinesDiffer(t *testing.T) {
	other := sampleReport(1000)
	other.Machine.Cores = 64
	if text := compareText(t, sampleReport(1000), other); !strings.Contains(text, "The machines differ") {
		t.Errorf("it does not:\n%s", text)
	}
}

func TestCompareNeedsEqualConnections(t *testing.T) {
	other := sampleReport(1000)
	other.Settings.Conns++
	if err := Compare(&strings.Builder{}, sampleReport(1000), other); err == nil || !strings.Contains(err.Error(), "connections") {
		t.Errorf("runs on different numbers of connections were compared: %v", err)
	}
	other = sampleReport(1000)
	other.Settings.Warmup += time.Second
	if text := compareText(t, sampleReport(1000), other); !strings.Contains(text, "Not measured alike") {
		t.Errorf("it does not say that they were not measured alike:\n%s", text)
	}
}

func TestCompareNeedsSomethingInCommon(t *testing.T) {
	other := sampleReport(1000)
	other.Samples = nil
	if err := Compare(&strings.Builder{}, sampleReport(1000), other); err == nil {
		t.Error("reports without a common cell were compared")
	}
}
