package harness

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine is the machine on which a run took place.
type Machine struct {
	CPU    string   `json:"cpu"`
	Cores  int      `json:"cores"`
	OS     string   `json:"os"`
	Kernel string   `json:"kernel"`
	Go     string   `json:"go"`
	Env    []string `json:"env,omitempty"` // environment variables that change a program's speed
}

// String returns the machine in one line.
func (m Machine) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s, %d cores, %s, kernel %s, %s",
		m.CPU, m.Cores, m.OS, m.Kernel, strings.Join(append([]string{m.Go}, m.Env...), " ")))
}

// thisMachine describes the machine that this process runs on.
func thisMachine() Machine {
	m := Machine{
		CPU:    cpuModel(),
		Cores:  runtime.NumCPU(),
		OS:     runtime.GOOS + "/" + runtime.GOARCH,
		Kernel: firstLine("/proc/sys/kernel/osrelease"),
		Go:     runtime.Version(),
	}
	for _, name := range []string{"GOMAXPROCS", "GOGC", "GOMEMLIMIT", "GODEBUG", "GOAMD64", "GOEXPERIMENT"} {
		if v := os.Getenv(name); v != "" {
			m.Env = append(m.Env, name+"="+v)
		}
	}
	return m
}

// cpuModel returns the processor's name, "unknown" where /proc is missing.
func cpuModel() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	_, rest, found := bytes.Cut(info, []byte("model name\t: "))
	if !found {
		return "unknown"
	}
	name, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(name)
}

func firstLine(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return "unknown"
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return line
}
