package demo

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
)

// audit is what the journals show about the calls that must not run twice. The slices have
// IDs of calls.
type audit struct {
	entries        int   // executions
	twice          []int // executed more than once
	missing        []int // answered, but not executed
	executedAnyway []int // executed, although reported as not executed
}

// auditFiles audits the journals in the files. A file that does not exist counts as empty.
func auditFiles(fates []fate, files []string) (audit, error) {
	executed := make([]uint8, len(fates))
	for _, name := range files {
		if err := readJournal(name, executed); err != nil {
			return audit{}, fmt.Errorf("journal %s: %w", name, err)
		}
	}
	return auditCounts(fates, executed), nil
}

func readJournal(name string, executed []uint8) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	return countLines(f, executed)
}

// countLines adds the executions in a journal to executed, by ID.
func countLines(r io.Reader, executed []uint8) error {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		id, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		if id < 0 || id >= len(executed) {
			return fmt.Errorf("call %d was never made", id)
		}
		if executed[id] < 2 { // no need to count beyond two
			executed[id]++
		}
	}
	return lines.Err()
}

// auditCounts compares the outcomes of the calls with how often they ran.
func auditCounts(fates []fate, executed []uint8) audit {
	var a audit
	for id, n := range executed {
		a.entries += int(n)
		if n > 1 {
			a.twice = append(a.twice, id)
		}
		switch {
		case n == 0 && fates[id] == fateAnswered:
			a.missing = append(a.missing, id)
		case n > 0 && fates[id] == fateNotExecuted:
			a.executedAnyway = append(a.executedAnyway, id)
		}
	}
	return a
}
