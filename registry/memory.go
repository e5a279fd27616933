package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/tandem-rpc/tandem"
)

// Memory is a registry inside one process: one list, the same for every target. It
// is for tests and for servers and clients that share a process. It is safe for
// concurrent use.
type Memory struct {
	mu        sync.Mutex
	listed    map[string]tandem.Instance
	documents map[string]*memoryDocument // documents by key
	revision  uint64
	failure   error
	changed   chan struct{} // closed and replaced when one of the fields above changes
}

var (
	_ Registrar      = (*Memory)(nil)
	_ DocumentFinder = (*Memory)(nil)
	_ Resolver       = (*Memory)(nil)
	_ Directory      = (*Memory)(nil)
	_ Documents      = (*Memory)(nil)
	_ DocumentWriter = (*Memory)(nil)
)

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{listed: make(map[string]tandem.Instance), documents: make(map[string]*memoryDocument), changed: make(chan struct{})}
}

// Register lists the instance. It fails with [ErrTaken] for an ID that is listed already.
func (m *Memory) Register(ctx context.Context, in tandem.Instance) (Registration, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := in.Validate(); err != nil {
		return nil, fmt.Errorf("memory registry: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil {
		return nil, m.failure
	}
	if _, taken := m.listed[in.ID]; taken {
		return nil, fmt.Errorf("memory registry: instance %q: %w", in.ID, ErrTaken)
	}
	m.listed[in.ID] = in.Clone()
	m.changeLocked()
	return &memoryEntry{m: m, id: in.ID}, nil
}

// Lists returns the target itself, unless the list is empty. See [Directory].
func (m *Memory) Lists(_ context.Context, target Target) ([]Target, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failure != nil || len(m.listed) == 0 {
		return nil, m.failure
	}
	return []Target{target}, nil
}

// Watch delivers the list and its changes. It accepts every target.
func (m *Memory) Watch(ctx context.Context, _ Target, update func(Snapshot)) error {
	for ctx.Err() == nil {
		snapshot, changed := m.snapshot()
		update(snapshot)
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

// Fail makes the registry fail with err, for watchers as well as registrars,
// until it is called with nil. Listed instances stay listed.
func (m *Memory) Fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failure = err
	m.wakeLocked()
}

// snapshot returns the current state, and a channel that is closed when it is
// no longer current.
func (m *Memory) snapshot() (Snapshot, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Snapshot{Revision: m.revision, Err: m.failure}
	if s.Err == nil {
		s.Instances = make([]tandem.Instance, 0, len(m.listed))
		for _, in := range m.listed {
			s.Instances = append(s.Instances, in.Clone())
		}
		slices.SortFunc(s.Instances, byID)
	}
	return s, m.changed
}

func byID(a, b tandem.Instance) int { return cmp.Compare(a.ID, b.ID) }

func (m *Memory) changeLocked() {
	m.revision++
	m.wakeLocked()
}

func (m *Memory) wakeLocked() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// memoryEntry is a Registration with a Memory.
type memoryEntry struct {
	m      *Memory
	id     string
	closed bool // guarded by m.mu
}

func (e *memoryEntry) Update(ctx context.Context, in tandem.Instance) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := in.Validate(); err != nil {
		return fmt.Errorf("memory registry: %w", err)
	}
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	switch {
	case e.closed:
		return fmt.Errorf("memory registry: instance %q: update after close", e.id)
	case in.ID != e.id:
		return fmt.Errorf("memory registry: instance %q can't be updated to another id, %q; register that", e.id, in.ID)
	case e.m.failure != nil:
		return e.m.failure
	}
	e.m.listed[e.id] = in.Clone()
	e.m.changeLocked()
	return nil
}

func (e *memoryEntry) Close() error {
	e.m.mu.Lock()
	defer e.m.mu.Unlock()
	if !e.closed {
		e.closed = true
		delete(e.m.listed, e.id)
		e.m.changeLocked()
	}
	return nil
}
