package services

import (
	"context"
	"fmt"
	"os"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// Entry is what is appended to a [Ledger]; no two have the same ID.
type Entry struct{ ID uint64 }

// Receipt says that an entry has been written.
type Receipt struct{ ID uint64 }

// Ledger keeps a journal of every execution, which outlives the process: each
// is in the hands of the operating system before it is answered.
type Ledger struct{ journal *os.File }

// OpenLedger opens a ledger whose journal is the file, which is made if need be
// and only ever appended to.
func OpenLedger(path string) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return &Ledger{journal: f}, nil
}

// Serve serves the ledger's method.
func (l *Ledger) Serve(srv *server.Server) error { return server.Handle(srv, Append, l.append) }

// append writes the line in a single system call, so that lines of concurrent
// calls don't mix and none is cut by the process being killed.
func (l *Ledger) append(_ context.Context, e *Entry) (*Receipt, error) {
	if _, err := fmt.Fprintf(l.journal, "%d\n", e.ID); err != nil {
		return nil, tandem.Errorf(tandem.DataLoss, "entry %d is not written: %w", e.ID, err)
	}
	return &Receipt{ID: e.ID}, nil
}

// Close closes the journal.
func (l *Ledger) Close() error { return l.journal.Close() }
