//go:build unix

package connections

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// nrOpen is the kernel's bound of what RLIMIT_NOFILE can be.
const nrOpen = "/proc/sys/fs/nr_open"

// raise makes room for that many open files in a process and its children, as
// far as it may. It returns how many there may be, a line for each thing that
// it changed or could not, and a function that puts the kernel's settings back.
func raise(files int) (allowed int, notes []string, restore func() error) {
	want := uint64(files) //nolint:gosec // some hundred thousand
	restore = func() error { return nil }
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return files, []string{fmt.Sprintf("RLIMIT_NOFILE is unknown: %v", err)}, restore
	}
	if limit.Max >= want {
		return files, notes, restore
	}
	if note, back := raiseSetting(nrOpen, files); note != "" {
		notes, restore = append(notes, note), back
	}
	old := limit.Max
	limit = syscall.Rlimit{Cur: want, Max: want}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		note := fmt.Sprintf("RLIMIT_NOFILE stays %d, %d would be needed: %v; raise the hard limit outside (ulimit -Hn, or CAP_SYS_RESOURCE)", old, files, err)
		return int(old), append(notes, note), restore //nolint:gosec // less than files
	}
	return files, append(notes, fmt.Sprintf("RLIMIT_NOFILE raised from %d to %d, for this run", old, files)), restore
}

// raiseSetting raises a number in /proc/sys that is less than least. No note
// means that there is nothing to do, or no such setting.
func raiseSetting(path string, least int) (note string, restore func() error) {
	restore = func() error { return nil }
	text, err := os.ReadFile(path)
	if err != nil {
		return "", restore
	}
	old, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || old >= least {
		return "", restore
	}
	if err := os.WriteFile(path, strconv.AppendInt(nil, int64(least), 10), 0o644); err != nil {
		return fmt.Sprintf("%s stays %d: %v", path, old, err), restore
	}
	restore = func() error {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return fmt.Errorf("connections: putting %s back to %d: %w", path, old, err)
		}
		return nil
	}
	return fmt.Sprintf("%s raised from %d to %d, and put back afterwards", path, old, least), restore
}
