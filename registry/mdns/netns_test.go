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

// inside says that the process is in a network namespace of its own.
const inside = "TANDEM_MDNS_TEST_INSIDE"

// TestMain runs the tests in a network namespace of their own, with an interface
// that they may take down. That needs root.
func TestMain(m *testing.M) {
	switch os.Getenv(inside) {
	case "":
		os.Exit(enter())
	case "child":
		os.Exit(child())
	}
	run("ip link set lo up")
	makeInterface()
	// The library joins the group on the system's choice of an interface too, and
	// there must be one: a machine has a default route.
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

// run runs a command or, as nothing works without it, panics.
func run(line string) {
	words := strings.Fields(line)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		panic(fmt.Sprintf("%s: %v: %s", line, err, out))
	}
}

// child is another machine: it has the other end of a cable, registers there, and
// lives until its input ends.
func child() int {
	in := bufio.NewScanner(os.Stdin)
	in.Scan() // until the cable is plugged in
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
