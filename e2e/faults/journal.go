package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// entry is a call in the client's journal.
type entry struct {
	ID          uint64 `json:"id"`
	Variant     string `json:"variant"`
	At          int64  `json:"at"`      // when the call was due, in Unix nanoseconds
	Took        int64  `json:"took"`    // nanoseconds from At until the call returned
	Code        string `json:"code"`    // "ok", or the error's code
	NotExecuted bool   `json:"notExec"` // the error claims that no handler ran
	Message     string `json:"message,omitempty"`
}

func (e entry) ok() bool            { return e.Code == codeOK }
func (e entry) at() time.Time       { return time.Unix(0, e.At) }
func (e entry) took() time.Duration { return time.Duration(e.Took) }
func (e entry) end() time.Time      { return e.at().Add(e.took()) }

const codeOK = "ok"

// executions holds, for each call ID, when and on which servers its handler began.
type executions map[uint64][]execution

type execution struct {
	at     time.Time
	server int
}

// writeEntries writes the client's journal.
func writeEntries(path string, all []entry) error {
	f, err := os.Create(path) //nolint:gosec // the lab's own directory
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	enc := json.NewEncoder(w)
	for _, e := range all {
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

func readEntries(path string) ([]entry, error) {
	f, err := os.Open(path) //nolint:gosec // the lab's own directory
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read only
	var all []entry
	dec := json.NewDecoder(bufio.NewReader(f))
	for {
		var e entry
		switch err := dec.Decode(&e); err {
		case nil:
			all = append(all, e)
		case io.EOF:
			return all, nil
		default:
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
}

// journal is a server's journal: one line for each handler that began. Each line is written at
// once, without a buffer, so that it survives a kill of the process.
type journal struct{ f *os.File }

func openJournal(path string) (journal, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // the lab's own directory
	return journal{f}, err
}

// executed records that the handler of a call begins. Calls with ID 0 are not recorded.
func (j journal) executed(id uint64) {
	if id != 0 {
		_, _ = fmt.Fprintf(j.f, "%d %d\n", id, time.Now().UnixNano()) // a lost line shows as a lost call
	}
}

// readExecutions adds the executions of one server's journal to all.
func readExecutions(path string, server int, all executions) error {
	text, err := os.ReadFile(path) //nolint:gosec // the lab's own directory
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(text)) {
		id, at, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err1 := strconv.ParseUint(id, 10, 64)
		t, err2 := strconv.ParseInt(at, 10, 64)
		if err1 != nil || err2 != nil {
			continue // the process was killed while it wrote the last line
		}
		all[n] = append(all[n], execution{time.Unix(0, t), server})
	}
	return nil
}
