package demo

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
)

func TestAudit(t *testing.T) {
	fates := []fate{fateAnswered, fateAnswered, fateNotExecuted, fateUnknown, fateUnknown, fateNone, fateAnswered}
	for _, c := range []struct {
		name     string
		journals []string
		want     audit
	}{
		{"all is well", []string{"0\n1\n3\n", "6\n"}, audit{entries: 4}},
		{"twice in one process", []string{"0\n1\n0\n", "6\n"}, audit{entries: 4, twice: []int{0}}},
		{"twice, in two processes", []string{"0\n1\n3\n", "3\n6\n3\n"}, audit{entries: 5, twice: []int{3}}},
		{"answered, but not executed", []string{"0\n6\n", ""}, audit{entries: 2, missing: []int{1}}},
		{"executed, though said not to be", []string{"0\n1\n2\n6\n"}, audit{entries: 4, executedAnyway: []int{2}}},
	} {
		dir := t.TempDir()
		files := []string{filepath.Join(dir, "none")}
		for i, text := range c.journals {
			name := filepath.Join(dir, serverName(i))
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			files = append(files, name)
		}
		if got, err := auditFiles(fates, files); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
}

func TestAuditOfABadJournal(t *testing.T) {
	for _, text := range []string{"7\n", "-1\n", "x\n", "1 2\n"} {
		name := filepath.Join(t.TempDir(), "journal")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if a, err := auditFiles(make([]fate, 7), []string{name}); err == nil {
			t.Errorf("%q: got %+v", text, a)
		}
	}
}
