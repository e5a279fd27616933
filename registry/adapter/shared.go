package adapter

import "sync"

// Shared shares connections to registries, one per key, between all users of that
// key, and closes a connection when its last user releases it: two thousand watches
// of one registry need one connection. Open and Close must be set. It is safe for
// concurrent use.
type Shared[T any] struct {
	Open  func(key string) (T, error)
	Close func(T)

	mu   sync.Mutex
	open map[string]*shared[T]
}

type shared[T any] struct {
	value T
	users int
}

// Acquire returns the connection for a key and the function that releases it, which
// must be called exactly once. Open must not wait for the registry, because other
// callers of Acquire wait for Open.
func (s *Shared[T]) Acquire(key string) (T, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.open[key]
	if c == nil {
		value, err := s.Open(key)
		if err != nil {
			var none T
			return none, nil, err
		}
		c = &shared[T]{value: value}
		if s.open == nil {
			s.open = make(map[string]*shared[T])
		}
		s.open[key] = c
	}
	c.users++
	return c.value, func() { s.release(key, c) }, nil
}

func (s *Shared[T]) release(key string, c *shared[T]) {
	s.mu.Lock()
	c.users--
	last := c.users == 0
	if last {
		delete(s.open, key)
	}
	s.mu.Unlock()
	if last {
		s.Close(c.value)
	}
}
