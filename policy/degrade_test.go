package policy_test

import (
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/policy"
)

func TestDegradeIsChecked(t *testing.T) {
	for text, want := range map[string]string{
		`{"reply": "{}"}`: "",
		`{"on": ["internal"], "last": {"maxAge": "1m", "entries": 5, "bytes": 1000}}`: "",
		`{"last": {}}`:                                    "",
		`{}`:                                              "want a reply, a last, or both",
		`{"on": ["not_found"], "reply": "1"}`:             `degrade.on[0]: "not_found" is none of unavailable,`,
		`{"on": "unavailable", "reply": "1"}`:             "want a list",
		`{"reply": "{"}`:                                  "degrade.reply: not JSON",
		`{"reply": {}}`:                                   "want a string",
		`{"last": {"entries": -1}}`:                       "degrade.last.entries",
		`{"last": {"bytes": 2000000000}}`:                 "degrade.last.bytes",
		`{"last": {"maxAge": "48h"}}`:                     "degrade.last.maxAge",
		`{"reply": "` + strings.Repeat("1", 70000) + `"}`: "degrade.reply: more than",
	} {
		_, err := policy.Parse([]byte(`{"methods": {"A.B": {"degrade": ` + text + `}}}`))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.100s: %v, want %q", text, err, want)
		}
	}
	if _, err := policy.Parse([]byte(`{"default": {"degrade": {"reply": "1"}}}`)); err == nil || !strings.Contains(err.Error(), "only methods that are named") {
		t.Errorf("the default: %v", err)
	}
}
