package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// memoryDocument is a document of a [Memory] and its reports.
type memoryDocument struct {
	text    []byte // nil while there is none
	reports map[string]memoryReport
}

type memoryReport struct {
	text []byte
	ends time.Time
}

// PutDocument stores a document under a key and replaces the one before; an empty text
// deletes the document.
func (m *Memory) PutDocument(key string, text []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.documentLocked(key).text = memoryText(text)
	m.wakeLocked()
}

// memoryOverrides is the key that DocumentsOf returns: a Memory has one list.
const memoryOverrides = "/tandem-overrides"

// DocumentsOf returns m, and the same key for every target. See [DocumentFinder].
func (m *Memory) DocumentsOf(Target) (d Documents, key string, err error) {
	return m, memoryOverrides, nil
}

// ReadDocument returns a document. Like the other methods it fails while Fail is in
// effect. See [DocumentWriter].
func (m *Memory) ReadDocument(ctx context.Context, key string) ([]byte, error) {
	if key == "" {
		return nil, errNoKey
	}
	text, _, err := m.document(key)
	switch {
	case errors.Is(err, ErrNoDocument):
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	}
	return text, ctx.Err()
}

var errNoKey = errors.New("memory registry: a document needs a key")

// SwapDocument stores or deletes a document. Like the other methods it fails while Fail is
// in effect. See [DocumentWriter].
func (m *Memory) SwapDocument(ctx context.Context, key string, old, text []byte) error {
	if key == "" {
		return errNoKey
	}
	if err := checkDocument(text); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil {
		return m.failure
	}
	p := m.documentLocked(key)
	if !bytes.Equal(p.text, old) {
		return fmt.Errorf("memory registry: document %.100q: %w", key, ErrChanged)
	}
	p.text = memoryText(text)
	m.wakeLocked()
	return nil
}

// memoryText returns a copy of a document, nil for none.
func memoryText(text []byte) []byte {
	if len(text) == 0 {
		return nil
	}
	return bytes.Clone(text)
}

// documentLocked returns the document and the reports of a key, and creates them if there
// are none.
func (m *Memory) documentLocked(key string) *memoryDocument {
	p := m.documents[key]
	if p == nil {
		p = &memoryDocument{reports: make(map[string]memoryReport)}
		m.documents[key] = p
	}
	return p
}

// WatchDocument delivers the document and its changes. See [Documents].
func (m *Memory) WatchDocument(ctx context.Context, key string, update func(text []byte, err error)) error {
	var last []byte
	var failed string
	for first := true; ctx.Err() == nil; {
		text, changed, err := m.document(key)
		// changed is also closed when another document, or the list, has changed.
		if reason := fmt.Sprint(err); first || reason != failed || !bytes.Equal(text, last) {
			first, failed, last = false, reason, text
			update(text, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// document returns what WatchDocument delivers, and a channel that is closed when that may
// have changed.
func (m *Memory) document(key string) (text []byte, changed <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.documents[key]; p != nil {
		text = p.text
	}
	switch {
	case m.failure != nil:
		return nil, m.changed, fmt.Errorf("memory registry: %w", m.failure)
	case len(text) == 0:
		return nil, m.changed, ErrNoDocument
	}
	if err := checkDocument(text); err != nil {
		return nil, m.changed, err
	}
	return slices.Clone(text), m.changed, nil
}

// checkDocument fails for a document of more than MaxDocument bytes.
func checkDocument(text []byte) error {
	if len(text) > MaxDocument {
		return fmt.Errorf("memory registry: the document has %d bytes, limit %d", len(text), MaxDocument)
	}
	return nil
}

// PutReport puts a report next to a document. See [Documents].
func (m *Memory) PutReport(ctx context.Context, key, name string, report []byte, life time.Duration) error {
	if name == "" || len(name) > 256 || len(report) > MaxReport || life < time.Second || life > 24*time.Hour {
		return fmt.Errorf("memory registry: report %.100q of %d bytes with a life of %v: want a name of 1 to 256 bytes, at most %d bytes, and 1s to 24h",
			name, len(report), life, MaxReport)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil {
		return m.failure
	}
	p := m.documentLocked(key)
	p.forget()
	if _, known := p.reports[name]; !known && len(p.reports) >= MaxReports {
		return ErrReports
	}
	p.reports[name] = memoryReport{slices.Clone(report), time.Now().Add(life)}
	return ctx.Err()
}

// Reports returns the reports of a document. See [Documents].
func (m *Memory) Reports(ctx context.Context, key string) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil {
		return nil, m.failure
	}
	reports := make(map[string][]byte)
	if p := m.documents[key]; p != nil {
		p.forget()
		for name, r := range p.reports {
			reports[name] = slices.Clone(r.text)
		}
	}
	return reports, ctx.Err()
}

// forget drops the reports whose life is over.
func (p *memoryDocument) forget() {
	now := time.Now()
	maps.DeleteFunc(p.reports, func(_ string, r memoryReport) bool { return !now.Before(r.ends) })
}
