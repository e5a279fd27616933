package registry

import "sync"

// Shared hands out connections to registries, one a key, to all who use it at the
// same time, and closes each when the last has left: two thousand watches of one
// registry need one connection. The fields must be set; it is safe for concurrent
// use.
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

// Acquire returns the connection for a key and the function that gives it back,
// which must be called once. Open must not wait for the registry: others wait for
// it.
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
