//go:build integration

package mdns

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// inside is the environment variable that is set in the network namespace of the tests.
const inside = "TANDEM_MDNS_TEST_INSIDE"

// TestMain runs the tests in a new network namespace, with an interface that they may take
// down. That needs root.
func TestMain(m *testing.M) {
	switch os.Getenv(inside) {
	case "":
		os.Exit(enter())
	case "child":
		os.Exit(child())
	}
	run("ip link set lo up")
	makeInterface()
	// The library joins the group also on an interface of the system's choice. It needs a
	// default route to choose by.
	run("ip route add default dev lo")
	goleak.VerifyTestMain(m)
}

func enter() int {
	runtime.LockOSThread() // Pdeathsig is sent when this thread ends
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=tests")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// makeInterface makes the interface of the tests.
func makeInterface() {
	run("ip link add mdns0 type veth peer name mdns1")
	run("ip addr add 10.77.0.1/24 dev mdns0")
	run("ip link set mdns1 up")
	run("ip link set mdns0 up")
}

// run runs a command, and panics if it fails: no test works without it.
func run(line string) {
	words := strings.Fields(line)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%s: %v: %s", line, err, out))
	}
}

// child is the process of the other machine: it registers at the other end of the veth pair,
// and runs until its input ends.
func child() int {
	in := bufio.NewScanner(os.Stdin)
	in.Scan() // waits until far1 is in this namespace
	run("ip addr add 10.78.0.2/24 dev far1")
	run("ip link set far1 up")
	run("ip link set lo up")
	run("ip route add default via 10.78.0.1")
	r, err := New(in.Text())
	if err != nil {
		fmt.Println(err)
		return 1
	}
	entry, err := r.Register(context.Background(), instance("far"))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("registered")
	in.Scan()
	if err := entry.Close(); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
