package seeds

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
)

// apart is the environment variable with the folder of the programs. It is set in the process
// with a separate network.
const apart = "TANDEM_SEEDS_PROGRAMS"

// TestMain builds the programs and runs the tests again, in a separate network. It fails if
// there can't be one: the programs must run in CI.
func TestMain(m *testing.M) {
	if runtime.GOOS != "linux" {
		fmt.Fprintln(os.Stderr, "the tests need a network namespace of Linux")
		return
	}
	if os.Getenv(apart) != "" {
		os.Exit(m.Run())
	}
	if err := runApart(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runApart() error {
	dir, err := os.MkdirTemp("", "seeds")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := build(dir); err != nil {
		return err
	}
	hosts := filepath.Join(dir, "hosts")
	if err := os.WriteFile(hosts, []byte("127.0.0.1 localhost tr.colobu.com\n"), 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append([]string{"-rnm", "sh", "-ec", `ip link set lo up; mount --bind "$0" /etc/hosts; exec "$@"`, hosts, self}, os.Args[1:]...)
	cmd := exec.Command("unshare", args...)
	cmd.Env = append(os.Environ(), apart+"="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("in a separate network: %w", err)
	}
	return nil
}

// build builds every program. Its file has the name of its path, with dashes for slashes.
func build(dir string) error {
	mains, err := filepath.Glob("*/*/main.go")
	if err != nil || len(mains) == 0 {
		return errors.Join(errors.New("no programs"), err)
	}
	for _, name := range mains {
		folder := filepath.Dir(name)
		cmd := exec.Command("go", "build", "-o", filepath.Join(dir, binary(folder)), "./"+folder)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", folder, err, out)
		}
	}
	return nil
}
