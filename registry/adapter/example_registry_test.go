package adapter_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/registry"
	"github.com/tandem-rpc/tandem/registry/adapter"
	"github.com/tandem-rpc/tandem/registry/registrytest"
)

// kvRegistry is a whole registry: a Registrar and a Resolver for instances in a store.
type kvRegistry struct{ store *store }

func (r kvRegistry) Register(ctx context.Context, in tandem.Instance) (registry.Registration, error) {
	return adapter.Maintain(ctx, &kvEntry{store: r.store, id: in.ID}, in, adapter.Upkeep{Name: "kv registry", Every: 100 * time.Millisecond})
}

func (r kvRegistry) Watch(ctx context.Context, _ registry.Target, update func(registry.Snapshot)) error {
	return adapter.Follower{Name: "kv registry", Settle: 10 * time.Millisecond, Session: func(ctx context.Context, m *adapter.Mirror) error {
		for ctx.Err() == nil {
			values, changed := r.store.all()
			list := make(map[string]tandem.Instance)
			for key, value := range values {
				if in, ok := m.Decode(key, value); ok {
					list[key] = in
				}
			}
			m.Replace(list)
			select {
			case <-changed:
			case <-ctx.Done():
			}
		}
		return ctx.Err()
	}}.Follow(ctx, update)
}

// kvEntry is the place of an instance in the store. Maintain calls one method at a time.
type kvEntry struct {
	store *store
	id    string
	mine  []byte // what the last Put has written
}

func (e *kvEntry) Put(_ context.Context, in tandem.Instance) error {
	listed := e.store.get(e.id)
	if other, err := adapter.Decode(listed); err == nil && !bytes.Equal(listed, e.mine) && adapter.Supersedes(&other, &in) {
		return registry.ErrSuperseded
	}
	data, err := adapter.Encode(in)
	if err != nil {
		return err
	}
	e.store.put(e.id, data)
	e.mine = data
	return nil
}

func (e *kvEntry) Check(context.Context) error {
	if !bytes.Equal(e.store.get(e.id), e.mine) {
		return errors.New("the key is gone, or another server has written it")
	}
	return nil
}

func (e *kvEntry) Delete(context.Context) error {
	if bytes.Equal(e.store.get(e.id), e.mine) {
		e.store.put(e.id, nil)
	}
	return nil
}

// store is the server of the registry: it has values under keys, and says when they change.
type store struct {
	mu      sync.Mutex
	values  map[string][]byte
	changed chan struct{} // closed and replaced at every change
}

func newStore() *store { return &store{values: make(map[string][]byte), changed: make(chan struct{})} }

func (s *store) get(key string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values[key]
}

func (s *store) put(key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values[key] = value
	if value == nil {
		delete(s.values, key)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *store) all() (map[string][]byte, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.values), s.changed
}

// A registry for a store of keys and values.
func Example() {
	r := kvRegistry{newStore()}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	entry, err := r.Register(ctx, tandem.Instance{
		ID:        "one",
		Endpoints: []tandem.Endpoint{{Transport: "tcp", Address: "127.0.0.1:8972"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer entry.Close()
	err = r.Watch(ctx, registry.Target{}, func(s registry.Snapshot) {
		fmt.Println(s.Revision, s.Instances[0].ID, s.Err)
		cancel() // ends Watch
	})
	fmt.Println(err)
	// Output:
	// 1 one <nil>
	// context canceled
}

func TestExampleConforms(t *testing.T) {
	registrytest.Run(t, func(testing.TB) registrytest.Harness {
		s := newStore()
		return registrytest.Harness{
			Registrar: kvRegistry{s},
			Resolver:  kvRegistry{s},
			Lose: func(id string) error {
				s.put(id, nil)
				return nil
			},
		}
	})
}
