package main

import (
	"testing"
	"time"
)

// TestOverloadBars tests that goodputHolds fails for a low goodput and for a collapse.
func TestOverloadBars(t *testing.T) {
	began := time.Unix(1000, 0)
	arm := func(good, late int) *armResult {
		r := &armResult{arm: arm{System: sysTandem}, capacity: 100, began: began, ended: began.Add(10 * time.Second), ran: executions{}}
		add := func(second, n, ok int) {
			for i := range n {
				e := entry{At: began.Add(time.Duration(second) * time.Second).UnixNano(), Code: "resource exhausted"}
				if i < ok {
					e.Code = codeOK
				}
				r.entries = append(r.entries, e)
			}
		}
		for second := range 10 {
			add(second, 300, good)
		}
		add(12, 90, 0) // not counted: before overloadRecover
		add(16, 90, late)
		return r
	}
	for name, c := range map[string]struct {
		good, late int
		passed     []bool
	}{
		"holds":          {90, 90, []bool{true, true}},
		"little goodput": {80, 90, []bool{false, true}},
		"collapse":       {90, 45, []bool{true, false}},
	} {
		o := &outcome{cell: cell{Load: plan{Overload: 3}}, arms: []*armResult{arm(c.good, c.late)}}
		checks := goodputHolds(o, 85)
		if len(checks) != 2 || checks[0].OK != c.passed[0] || checks[1].OK != c.passed[1] {
			t.Errorf("%s: %+v", name, checks)
		}
	}
}

// TestSharedBars tests that besideHolds and fewAttempts fail when they must.
func TestSharedBars(t *testing.T) {
	began := time.Unix(1000, 0)
	for name, c := range map[string]struct {
		good, attempts int
		passed         bool
	}{"holds": {1960, 2190, true}, "fails": {1880, 2210, false}} {
		r := &armResult{arm: arm{System: sysTandem}, capacity: 100, began: began, ended: began.Add(10 * time.Second), ran: executions{}}
		for i := range 2000 {
			e := entry{ID: uint64(i + 1), Variant: variantQuick, At: began.Add(5 * time.Millisecond * time.Duration(i)).UnixNano(), Code: codeOK} //nolint:gosec // small
			if i >= c.good {
				e.Code = "resource exhausted"
			}
			r.entries = append(r.entries, e)
			r.ran[e.ID] = make([]execution, 1)
		}
		r.entries = append(r.entries, entry{At: began.Add(16 * time.Second).UnixNano(), Code: codeOK})
		r.refused = c.attempts - len(r.ran)
		o := &outcome{cell: cell{Load: plan{Beside: beside{Variant: variantQuick}}}, arms: []*armResult{r}}
		if checks := besideHolds(o); len(checks) != 3 || !checks[0].OK || checks[1].OK != c.passed || !checks[2].OK {
			t.Errorf("%s: %+v", name, checks)
		}
		if checks := fewAttempts(o); len(checks) != 2 || checks[0].OK != c.passed || !checks[1].OK {
			t.Errorf("%s: %+v", name, checks)
		}
	}
}
