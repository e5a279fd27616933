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
