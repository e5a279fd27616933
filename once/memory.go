package once

import (
	"cmp"
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
)

// MemoryConfig is the configuration of a [Memory]. Zero fields have the defaults.
type MemoryConfig struct {
	TTL     time.Duration // how long answers are kept; 1 hour by default
	Records int           // most records; 100,000 by default
	Bytes   int           // bytes of answers from which on no call begins; 64 MiB by default

	// OneInstance says that the service has one instance, whatever its clients' targets are. Without it
	// a call is refused unless its client says that it makes every attempt at one instance.
	OneInstance bool
}

// Memory is a [Store] in the memory of a process, for a service with one instance. It forgets all
// records when the process ends: a retry that comes after a restart is refused with [Undecided],
// but a new call with an old key runs.
//
// It is bounded: calls with new keys are refused with ResourceExhausted while it is full.
type Memory struct {
	cfg MemoryConfig

	mu      sync.Mutex
	records map[ID]*remembered
	done    *list.List // of *remembered that are done, the oldest first
	bytes   int        // of all answers
}

// remembered is a record of a Memory. It is its claim, too.
type remembered struct {
	Record

	memory *Memory
}

var _ Store = (*Memory)(nil)

const (
	defaultTTL     = time.Hour
	defaultRecords = 100_000
	defaultBytes   = 64 << 20
)

// NewMemory returns a Memory without records.
func NewMemory(cfg MemoryConfig) *Memory {
	cfg.TTL = cmp.Or(max(0, cfg.TTL), defaultTTL)
	cfg.Records = cmp.Or(max(0, cfg.Records), defaultRecords)
	cfg.Bytes = cmp.Or(max(0, cfg.Bytes), defaultBytes)
	return &Memory{cfg: cfg, records: map[ID]*remembered{}, done: list.New()}
}

// Begin claims a record.
func (m *Memory) Begin(_ context.Context, r Request) (Claim, Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	m.forget(now)
	if known := m.records[r.ID]; known != nil {
		return nil, known.Record, nil
	}
	switch {
	case !r.Alone && !m.cfg.OneInstance:
		return nil, Record{}, tandem.Errorf(tandem.FailedPrecondition, "calls with a key are kept in the memory of one instance here, and this client may call others: "+
			"pin the call (client.Instance), or give the server a store of the module stores, or MemoryConfig.OneInstance")
	case r.Again: // the process may have been restarted since
		return nil, Record{ID: r.ID, Fingerprint: r.Fingerprint, State: StateUndecided, Since: now}, nil
	case len(m.records) >= m.cfg.Records, m.bytes >= m.cfg.Bytes:
		return nil, Record{}, tandem.Errorf(tandem.ResourceExhausted, "the memory of calls with a key is full: raise Records and Bytes of MemoryConfig, or lower TTL").WithRetryAfter(time.Second)
	}
	c := &remembered{Record{ID: r.ID, Fingerprint: r.Fingerprint, Since: now}, m}
	m.records[r.ID] = c
	return c, Record{}, nil
}

// forget removes the records whose time is over. The mutex is held.
func (m *Memory) forget(now time.Time) {
	for e := m.done.Front(); e != nil; e = m.done.Front() {
		c := e.Value.(*remembered) //nolint:forcetypeassert // nothing else is stored
		if now.Sub(c.Since) < m.cfg.TTL {
			return
		}
		m.done.Remove(e)
		m.bytes -= len(c.Answer)
		delete(m.records, c.ID)
	}
}

// Finish keeps the answer.
func (c *remembered) Finish(_ context.Context, answer []byte) error {
	m := c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	c.State, c.Answer, c.Since = StateDone, answer, time.Now()
	m.bytes += len(answer)
	m.done.PushBack(c)
	return nil
}

// Release removes the record.
func (c *remembered) Release(context.Context) error {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	delete(c.memory.records, c.ID)
	return nil
}

// Undecided returns nothing: a method that is interrupted takes the memory with it.
func (*Memory) Undecided(context.Context, int) ([]Record, error) { return nil, nil }

// Resolve returns [ErrNotUndecided].
func (*Memory) Resolve(context.Context, ID, bool) error { return ErrNotUndecided }
