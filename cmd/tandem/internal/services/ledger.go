package services

import (
	"context"
	"fmt"
	"os"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// Entry is an entry of a [Ledger]. Its ID is unique.
type Entry struct{ ID uint64 }

// Receipt confirms that an entry has been written.
type Receipt struct{ ID uint64 }

// Ledger keeps a journal of every execution. The journal survives a kill of the process: each
// entry is written to the operating system before the call is answered.
type Ledger struct{ journal *os.File }

// OpenLedger opens a ledger with a journal file. The file is created if it does not exist, and
// only appended to.
func OpenLedger(path string) (*Ledger, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return &Ledger{journal: f}, nil
}

// Serve serves the ledger's method.
func (l *Ledger) Serve(srv *server.Server) error { return server.Handle(srv, Append, l.append) }

// append writes the line in a single system call, so that lines of concurrent calls don't mix,
// and a kill of the process does not cut a line.
func (l *Ledger) append(_ context.Context, e *Entry) (*Receipt, error) {
	if _, err := fmt.Fprintf(l.journal, "%d\n", e.ID); err != nil {
		return nil, tandem.Errorf(tandem.DataLoss, "entry %d is not written: %w", e.ID, err)
	}
	return &Receipt{ID: e.ID}, nil
}

// Close closes the journal.
func (l *Ledger) Close() error { return l.journal.Close() }
