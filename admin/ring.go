package admin

import "sync"

// ring keeps the last values that were added.
type ring[T any] struct {
	size int

	mu   sync.Mutex
	kept []T
	next int // where the next value goes once size are kept
}

func (r *ring[T]) add(v T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) < r.size {
		r.kept = append(r.kept, v)
		return
	}
	r.kept[r.next] = v
	r.next = (r.next + 1) % r.size
}

// last returns at most n of the values that match, the latest first.
func (r *ring[T]) last(n int, match func(*T) bool) (out []T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := len(r.kept) - 1; i >= 0 && len(out) < n; i-- {
		if v := &r.kept[(r.next+i)%len(r.kept)]; match(v) {
			out = append(out, *v)
		}
	}
	return out
}

// update changes the values that match.
func (r *ring[T]) update(f func(*T)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.kept {
		f(&r.kept[i])
	}
}
