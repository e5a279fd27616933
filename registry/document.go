package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Documents are small texts that a registry keeps under keys of their own, such as the
// policies of clients, and beside each what its readers report of it. It is safe for
// concurrent use.
type Documents interface {
	// WatchDocument delivers the document, and then every new one, to update, one
	// call at a time, until ctx ends; then it returns ctx's error. While it can't be
	// read, or does not exist or is empty, it delivers why, once, and goes on trying.
	// It returns early only for a key that can never work.
	WatchDocument(ctx context.Context, key string, update func(text []byte, err error)) error
	// PutReport puts a report beside the document, in the place of what was put under
	// the same name. It is gone after its life, or when the process that put it is
	// known to be. There are up to [MaxReports] beside one document.
	PutReport(ctx context.Context, key, name string, report []byte, life time.Duration) error
	// Reports returns the reports beside the document by name.
	Reports(ctx context.Context, key string) (map[string][]byte, error)
}

// DocumentWriter is implemented by registries that write documents, too. It is safe for
// concurrent use.
type DocumentWriter interface {
	// WriteDocument puts a document under a key, in the place of the one before, whoever
	// wrote that; an empty one takes it away. It fails when the registry can't say that
	// it has taken the document; then it may have done so all the same.
	WriteDocument(ctx context.Context, key string, text []byte) error
}

// Bounds of documents and reports.
const (
	MaxDocument = 1 << 20  // bytes; a registry may take less
	MaxReport   = 16 << 10 // bytes
	MaxReports  = 5000     // beside one document
)

// ErrNoDocument is what a watch delivers while there is no document.
var ErrNoDocument = errors.New("there is no such document")

// ErrReports is what PutReport fails with when there are too many reports already.
var ErrReports = fmt.Errorf("there are %d reports beside the document already", MaxReports)

// CheckDocument fails for a document that no registry takes.
func CheckDocument(text []byte) error {
	if len(text) > MaxDocument {
		return fmt.Errorf("the document has %d bytes, limit %d", len(text), MaxDocument)
	}
	return nil
}

// CheckReport fails for a report that no registry takes.
func CheckReport(name string, report []byte, life time.Duration) error {
	switch {
	case name == "" || len(name) > 256:
		return fmt.Errorf("report %.100q: want a name of 1 to 256 bytes", name)
	case len(report) > MaxReport:
		return fmt.Errorf("report %.100q of %d bytes, limit %d", name, len(report), MaxReport)
	case life < time.Second || life > 24*time.Hour:
		return fmt.Errorf("report %.100q: life of %v; want 1s to 24h", name, life)
	}
	return nil
}

// DocumentFollower keeps a watch of a document going. Both fields must be set.
type DocumentFollower struct {
	Name string // of the registry, for errors: "etcd registry"
	// Session reads the document and gives it to deliver, empty when there is none, and
	// every change after that, one at a time, until something fails or ctx ends. It is
	// called again and again, each time to begin from the start.
	Session func(ctx context.Context, deliver func(text []byte)) error
}

// rereadDocument is after which time, at most, a session is ended for the next to read
// the document again, lest a change that went unseen stays unseen.
const rereadDocument = 45 * time.Second

// Follow calls Session again and again until ctx ends, and delivers what it reads, and
// its failures, to update. It returns ctx's error. It is what a registry's
// WatchDocument consists of.
func (f DocumentFollower) Follow(ctx context.Context, update func(text []byte, err error)) error {
	feed := documentFeed{update: update}
	failures := 0
	for ctx.Err() == nil {
		limit := rereadDocument/2 + rand.N(rereadDocument/2)
		session, cancel := context.WithTimeoutCause(ctx, limit, errRelist)
		err := f.Session(session, func(text []byte) {
			failures = 0
			feed.deliver(text)
		})
		if cause := context.Cause(session); cause != nil {
			err = cause
		}
		cancel()
		switch {
		case ctx.Err() != nil || errors.Is(err, errRelist):
			continue
		case err == nil:
			err = errors.New("the watch ended")
		}
		feed.fail(fmt.Errorf("%s: %w", f.Name, err))
		pause(ctx, rand.N(min(mostRetry, firstRetry<<min(failures, 8)))+time.Millisecond)
		failures++
	}
	return ctx.Err()
}

// documentFeed delivers what is new.
type documentFeed struct {
	update func(text []byte, err error)
	last   []byte // nil before the first
	failed string // the failure that was delivered since
}

func (f *documentFeed) deliver(text []byte) {
	switch {
	case len(text) == 0:
		f.fail(ErrNoDocument)
	case CheckDocument(text) != nil:
		f.fail(CheckDocument(text))
	case f.failed != "" || f.last == nil || !bytes.Equal(f.last, text):
		f.failed, f.last = "", append(make([]byte, 0, len(text)), text...)
		f.update(f.last, nil)
	}
}

func (f *documentFeed) fail(err error) {
	if err.Error() != f.failed {
		f.failed = err.Error()
		f.update(nil, err)
	}
}
