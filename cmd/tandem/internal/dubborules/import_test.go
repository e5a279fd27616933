package dubborules

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/tandem-rpc/tandem/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// FuzzImport: whatever the rules are, what becomes of them is valid, or there is an error.
func FuzzImport(f *testing.F) {
	for _, text := range []string{
		"key: a.B\nconditions: ['method=x => region=north']",
		"key: a.B\nconfigVersion: v3.1\nconditions: [{from: {match: 'attachments[u]=1'}, to: [{match: 'host=1.*', weight: 3}, {match: zone=$zone}]}]",
		"key: a\ntags: [{name: t}, {name: u, addresses: ['1.2.3.4:5']}, {name: v, match: [{key: env, value: {exact: g}}]}]",
		"scope: application\nkey: a\nconditions: ['interface=a.B & method=x* =>', '=> port!=80']\n---\nkey: g/a.B:1\nconditions: []",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var i Imported
		if i.Import("f", []byte(text)) != nil || len(i.Routes) > policy.MaxRoutes {
			return
		}
		i.Finish()
		if err := (&policy.Policy{Routes: i.Routes}).Validate(); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	})
}
