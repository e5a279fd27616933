package adapter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/tandem-rpc/tandem/registry"
)

// CheckDocument fails for a document of more than [registry.MaxDocument] bytes.
func CheckDocument(text []byte) error {
	if len(text) > registry.MaxDocument {
		return fmt.Errorf("the document has %d bytes, limit %d", len(text), registry.MaxDocument)
	}
	return nil
}

// CheckReport fails for a report that no registry accepts: its name is empty or longer
// than 256 bytes, it has more than [registry.MaxReport] bytes, or its life is not 1 s to 24 h.
func CheckReport(name string, report []byte, life time.Duration) error {
	switch {
	case name == "" || len(name) > 256:
		return fmt.Errorf("report %.100q: want a name of 1 to 256 bytes", name)
	case len(report) > registry.MaxReport:
		return fmt.Errorf("report %.100q of %d bytes, limit %d", name, len(report), registry.MaxReport)
	case life < time.Second || life > 24*time.Hour:
		return fmt.Errorf("report %.100q: life of %v; want 1s to 24h", name, life)
	}
	return nil
}

// DocumentFollower watches a document for a registry's WatchDocument: it runs Session
// again whenever that ends. Both fields must be set.
type DocumentFollower struct {
	Name string // name of the registry, for errors: "etcd registry"
	// Session reads the document and passes it to deliver, empty when there is none, and
	// then every change, one call at a time, until something fails or ctx ends. Each call
	// of Session starts from the beginning.
	Session func(ctx context.Context, deliver func(text []byte)) error
}

// rereadDocument is the longest time of one session. The next session reads the document
// again, so that a missed change is noticed.
const rereadDocument = 45 * time.Second

// Follow calls Session again and again until ctx ends, and delivers the texts it reads
// and its failures to update. It returns ctx's error. A registry's WatchDocument consists
// of a call of Follow.
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

// documentFeed delivers texts and failures that differ from the last delivery.
type documentFeed struct {
	update func(text []byte, err error)
	last   []byte // the text delivered last; nil before the first
	failed string // the failure delivered after it; "" for none
}

func (f *documentFeed) deliver(text []byte) {
	switch {
	case len(text) == 0:
		f.fail(registry.ErrNoDocument)
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
