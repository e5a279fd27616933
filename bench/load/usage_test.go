package load

import (
	"os"
	"path/filepath"
	"testing"
)

func TestFieldsOfProc(t *testing.T) {
	const sockstat = "sockets: used 25\nTCP: inuse 1 orphan 0 tw 234 alloc 10 mem 7\nUDP: inuse 0 mem 3\n"
	file := filepath.Join(t.TempDir(), "sockstat")
	if err := os.WriteFile(file, []byte(sockstat), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		label string
		want  uint64
	}{{"used", 25}, {" mem ", 7}, {"spare", 0}} {
		if got := procField(file, c.label); got != c.want {
			t.Errorf("%q is %d, want %d", c.label, got, c.want)
		}
	}
	if got := procField(file+"s", "used"); got != 0 {
		t.Errorf("a file that is not there has %d", got)
	}
}
