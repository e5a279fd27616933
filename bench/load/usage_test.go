package load

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTrafficOfTheInterfaces(t *testing.T) {
	const dev = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 1000      10    0    0    0     0          0         0  1000      10    0    0    0     0       0          0
 veth0:   20       1    0    0    0     0          0         0    30       1    0    0    0     0       0          0
 veth1:    4       1    0    0    0     0          0         0     5       1    0    0    0     0       0          0
`
	file := filepath.Join(t.TempDir(), "dev")
	if err := os.WriteFile(file, []byte(dev), 0o600); err != nil {
		t.Fatal(err)
	}
	if loopback, network := traffic(file); loopback != 1000 || network != 59 {
		t.Errorf("%d bytes over loopback, %d over others; want 1000 and 59", loopback, network)
	}
}

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
		if got := ProcField(file, c.label); got != c.want {
			t.Errorf("%q is %d, want %d", c.label, got, c.want)
		}
	}
	if got := ProcField(file+"s", "used"); got != 0 {
		t.Errorf("a file that is not there has %d", got)
	}
}
