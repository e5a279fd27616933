package demo

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// good returns the result of a run in which every check holds.
func good() result {
	return result{
		planned: 1000,
		stats:   totals{made: 1000, ok: 996, unknown: 4, retried: 8, moved: 3},
		faults: []faultResult{
			{fault: fault{kind: kill, server: "s1"}, before: 50},
			{fault: fault{kind: restart, server: "s1"}, before: 60},
			{fault: fault{kind: drain, server: "s2"}},
			{fault: fault{kind: join, server: "s4"}},
		},
		audit:   audit{entries: 200},
		servers: map[string]int{"s1": 300, "s2": 200, "s3": 396, "s4": 100},
		started: []string{"s1", "s2", "s3", "s4"},
		closing: time.Millisecond,
	}
}

func TestJudgePasses(t *testing.T) {
	r := good()
	if checks := judge(&r); !passed(checks) {
		t.Errorf("checks %+v", checks)
	}
}

// TestJudgeTurnsRed injects every kind of failure. Each must fail exactly one check, which
// names it.
func TestJudgeTurnsRed(t *testing.T) {
	for name, c := range map[string]struct {
		plant func(*result)
		says  string
	}{
		"a call failed":        {func(r *result) { r.stats.failed = 1 }, "1 calls failed"},
		"a wrong answer":       {func(r *result) { r.stats.wrong = 2 }, "2 wrong answers"},
		"one ran twice":        {func(r *result) { r.audit.twice = []int{77} }, "[77]"},
		"one is not there":     {func(r *result) { r.audit.missing = []int{1, 2, 3, 4, 5, 6} }, "6 calls answered but in no journal: [1 2 3 4 5]"},
		"not executed, it was": {func(r *result) { r.audit.executedAnyway = []int{9} }, "[9]"},
		"too few made":         {func(r *result) { r.stats.made, r.stats.overflow = 949, 51 }, "949 of 1000"},
		"an idle server":       {func(r *result) { r.servers["s3"] = 0 }, "s3 answered none"},
		"an idle newcomer":     {func(r *result) { delete(r.servers, "s4") }, "s4 answered none"},
		"the kill failed":      {func(r *result) { r.faults[0].err = errors.New("still there") }, "still there"},
		"no drain":             {func(r *result) { r.faults[2].err = errors.New("no word") }, "no word"},
		"no newcomer":          {func(r *result) { r.faults = r.faults[:3] }, "add did not happen"},
		"idle since restart":   {func(r *result) { r.servers["s1"] = 60 }, "no more since"},
		"a client that hangs":  {func(r *result) { r.closing = 3 * time.Second }, "3s"},
		"a server that hangs":  {func(r *result) { r.unclean = map[string]error{"s3": errors.New("stuck")} }, "s3: stuck"},
	} {
		r := good()
		c.plant(&r)
		red := 0
		for _, check := range judge(&r) {
			if check.flaw == "" {
				continue
			}
			red++
			if !strings.Contains(check.flaw, c.says) {
				t.Errorf("%s: %s: %s", name, check.what, check.flaw)
			}
		}
		if red != 1 || passed(judge(&r)) {
			t.Errorf("%s: %d checks are red", name, red)
		}
	}
}

func TestJudgeAllowsFivePercent(t *testing.T) {
	r := good()
	r.stats.made, r.stats.overflow = 950, 50
	if checks := judge(&r); !passed(checks) {
		t.Errorf("checks %+v", checks)
	}
}
