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
	case err != nil:
		return nil, err
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case CheckDocument(text) != nil:
		return nil, fmt.Errorf("memory registry: %w", CheckDocument(text))
	}
	return text, nil
}

var errNoKey = errors.New("memory registry: a document needs a key")

// SwapDocument stores or deletes a document. Like the other methods it fails while Fail is
// in effect. See [DocumentWriter].
func (m *Memory) SwapDocument(ctx context.Context, key string, old, text []byte) error {
	if key == "" {
		return errNoKey
	}
	if err := CheckDocument(text); err != nil {
		return fmt.Errorf("memory registry: %w", err)
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
	return DocumentFollower{Name: "memory registry", Session: func(ctx context.Context, deliver func([]byte)) error {
		for ctx.Err() == nil {
			text, changed, err := m.document(key)
			if err != nil {
				return err
			}
			deliver(text)
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}}.Follow(ctx, update)
}

// document returns a document, and a channel that is closed when it may have changed.
func (m *Memory) document(key string) (text []byte, changed <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.documents[key]; p != nil {
		return slices.Clone(p.text), m.changed, m.failure
	}
	return nil, m.changed, m.failure
}

// PutReport puts a report next to a document. See [Documents].
func (m *Memory) PutReport(ctx context.Context, key, name string, report []byte, life time.Duration) error {
	if err := CheckReport(name, report, life); err != nil {
		return err
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
