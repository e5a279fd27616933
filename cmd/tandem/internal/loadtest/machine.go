package loadtest

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
)

// Machine is where a load was sent from.
type Machine struct {
	Processor  string `json:"processor,omitempty"` // its model, if known
	Processors int    `json:"processors"`
	OS         string `json:"os"`
	Arch       string `json:"arch"`
	Go         string `json:"go"`
	GOMAXPROCS int    `json:"gomaxprocs"`
}

// String describes the machine in a line.
func (m *Machine) String() string {
	text := fmt.Sprintf("%d processors, %s/%s, %s, GOMAXPROCS %d", m.Processors, m.OS, m.Arch, m.Go, m.GOMAXPROCS)
	if m.Processor != "" {
		return m.Processor + ", " + text
	}
	return text
}

func thisMachine() Machine {
	return Machine{processorModel(), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), runtime.GOMAXPROCS(0)}
}

// processorModel returns the name of the processor, "" where Linux's /proc/cpuinfo is missing.
func processorModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	_, rest, _ := bytes.Cut(info, []byte("model name\t: "))
	name, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(name)
}
