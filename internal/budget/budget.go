// Package budget bounds the memory that the requests of a server take together.
//
// A [Budget] is what all requests may hold. Each connection has an [Account] of it,
// and each request that is large has a [Hold]. The rules:
//
//   - A hold grows while the budget has room and its account then holds no more than
//     remains free. So one greedy connection gets half of the budget, three get a
//     quarter each, and a new one always finds room for a small message.
//   - A hold without room waits. Of those that wait, older holds are served first. When
//     none is served for too long because the budget itself is used up, the youngest that
//     wait and hold memory are refused, so that an older one gets their memory: see Press.
//   - The bytes that have arrived of requests that wait are counted apart, up to half of the budget.
//   - The oldest hold that waits is served in any case, one at a time: it may exceed
//     the budget until it is released or fits. So one request always makes progress.
//
// The rules do not depend on time: a caller that waits brings a context that ends.
package budget

import (
	"cmp"
	"slices"
	"sync"
)

// Budget is the memory that requests may hold. It is safe for concurrent use, as are
// its accounts and holds. A nil Budget, Account or Hold has no limit.
type Budget struct {
	limit int64

	mu           sync.Mutex
	used         int64
	early        int64   // bytes that arrived before there was room
	born         uint64  // holds made so far
	excess       *Hold   // the hold that may exceed the limit or its account's share; nil for none
	waiting      []*wait // the oldest hold first
	refusedBytes int64   // bytes of holds that are refused and not yet released
	served       uint64  // waits that were granted
	refusals     uint64  // how often a hold was refused
}

// Account is a connection's part of a budget.
type Account struct {
	budget *Budget
	early  int64
	used   int64 // guarded by the budget's mutex, as are the fields of a Hold
}

// Hold is the memory that one request holds.
type Hold struct {
	account *Account
	born    uint64 // number of the hold, in the order in which holds are made
	n       int64  // bytes held
	early   int64  // bytes that Begin has counted
	wait    *wait  // nil while it does not wait
	refused bool   // its bytes are counted in refusedBytes

	expected int64 // see Expect
}

// wait is a hold that waits for n bytes.
type wait struct {
	hold *Hold
	n    int64
	done func(granted bool)
}

// New returns a budget of limit bytes.
func New(limit int64) *Budget { return &Budget{limit: max(1, limit)} }

// Served returns how many waits were granted so far. While it grows, requests that wait come
// nearer to their turn.
func (b *Budget) Served() uint64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.served
}

// Account returns an account for a new connection.
func (b *Budget) Account() *Account {
	if b == nil {
		return nil
	}
	return &Account{budget: b}
}

// Used returns how many bytes are held, and how often a hold was refused.
func (b *Budget) Used() (bytes int64, refusals uint64) {
	if b == nil {
		return 0, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used, b.refusals
}

// Hold returns an empty hold, for a request that begins now.
func (a *Account) Hold() *Hold {
	if a == nil {
		return nil
	}
	b := a.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	b.born++
	return &Hold{account: a, born: b.born}
}

// Try holds n bytes more if there is room now.
func (h *Hold) Try(n int64) bool {
	if h == nil || n <= 0 {
		return true
	}
	b := h.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hasRoom(h, n) || b.lends(h) {
		b.give(h, n)
		return true
	}
	b.refusals++
	return false
}

// Ask holds n bytes more, now if there is room. Otherwise it returns false, and done is called
// once: with true when the bytes are held, with false when they are refused. If the hold is
// released before, done is not called. done must not block; it may be called by any goroutine
// that uses the budget. A hold must not ask again while it waits.
func (h *Hold) Ask(n int64, done func(granted bool)) (granted bool) {
	if h == nil || n <= 0 {
		return true
	}
	b := h.account.budget
	b.mu.Lock()
	if b.hasRoom(h, n) || b.lends(h) {
		b.give(h, n)
		b.mu.Unlock()
		return true
	}
	h.wait = &wait{h, n, done}
	at, _ := slices.BinarySearchFunc(b.waiting, h.born, func(w *wait, born uint64) int { return cmp.Compare(w.hold.born, born) })
	b.waiting = slices.Insert(b.waiting, at, h.wait)
	b.mu.Unlock()
	return false
}

// Press refuses the youngest holds that wait and hold memory, as many as it takes for h to get
// what it waits for. It reports whether it has refused any.
func (h *Hold) Press() bool {
	if h == nil {
		return false
	}
	b := h.account.budget
	b.mu.Lock()
	var refused []*wait
	if h.wait != nil {
		refused = b.refuseYounger(h, h.wait.n)
	}
	b.mu.Unlock()
	for _, w := range refused {
		w.done(false)
	}
	return len(refused) > 0
}

// Begin counts n bytes of a request that arrive before it can hold them. Bytes that it gets
// later include these. It returns false if there is no room for them.
func (h *Hold) Begin(n int64) bool {
	if h == nil {
		return true
	}
	a, b := h.account, h.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.early+n > b.limit/2-b.early-n {
		b.refusals++
		return false
	}
	b.begin(h, n)
	return true
}

func (b *Budget) begin(h *Hold, n int64) {
	h.early += n
	h.account.early += n
	b.early += n
}

// Shrink gives n bytes back, at most those that are held.
func (h *Hold) Shrink(n int64) {
	if h == nil || n <= 0 {
		return
	}
	h.account.budget.settle(func(b *Budget) { b.take(h, min(n, h.n)) })
}

// Release gives all bytes back, and ends the hold's wait. The hold may be used again.
func (h *Hold) Release() {
	if h == nil {
		return
	}
	h.account.budget.settle(func(b *Budget) {
		b.leave(h)
		b.take(h, h.n)
		b.begin(h, -h.early)
		h.refused, h.expected = false, 0
	})
}

// Expect adds n bytes to what decoding the request takes, and returns the sum since the last
// Release.
func (h *Hold) Expect(n int64) int64 {
	if h == nil {
		return n
	}
	b := h.account.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	h.expected += n
	return h.expected
}

// settle changes the budget, and then serves holds that wait.
func (b *Budget) settle(change func(*Budget)) {
	b.mu.Lock()
	change(b)
	granted := b.serve()
	b.mu.Unlock()
	for _, w := range granted {
		w.done(true)
	}
}

// hasRoom reports whether h may hold n bytes more by the rules.
func (b *Budget) hasRoom(h *Hold, n int64) bool {
	free := b.limit - b.used - n
	return h.account.used+n <= free
}

// lends lets h exceed the limit if no other hold does. While a hold waits, another one exceeds
// the limit.
func (b *Budget) lends(h *Hold) bool {
	if b.excess == nil {
		b.excess = h
	}
	return b.excess == h
}

func (b *Budget) give(h *Hold, n int64) {
	if n > 0 && h.early > 0 {
		b.begin(h, -min(n, h.early))
	}
	if h.refused {
		b.refusedBytes += n
	}
	h.n += n
	h.account.used += n
	b.used += n
}

// take takes n bytes from h. The hold that may exceed the limit loses that right when the rules
// allow what it holds.
func (b *Budget) take(h *Hold, n int64) {
	b.give(h, -n)
	if x := b.excess; x != nil && (x.n == 0 || b.hasRoom(x, 0)) {
		b.excess = nil
	}
}

// leave removes h from those that wait.
func (b *Budget) leave(h *Hold) {
	if h.wait != nil {
		b.waiting = slices.DeleteFunc(b.waiting, func(w *wait) bool { return w == h.wait })
		h.wait = nil
	}
}

// serve grants waits for which there is room, and returns them.
func (b *Budget) serve() (granted []*wait) {
	if len(b.waiting) == 0 {
		return nil
	}
	left := b.waiting[:0]
	for _, w := range b.waiting {
		if b.hasRoom(w.hold, w.n) || b.lends(w.hold) {
			b.give(w.hold, w.n)
			b.served++
			w.hold.wait = nil
			granted = append(granted, w)
		} else {
			left = append(left, w)
		}
	}
	clear(b.waiting[len(left):])
	b.waiting = left
	return granted
}

// refuseYounger refuses the youngest holds that wait and hold memory, so that h gets its n
// bytes when they are released; none if that would not be enough. It does so only if the budget
// is short: an account that has reached its share waits for its own holds.
func (b *Budget) refuseYounger(h *Hold, n int64) (refused []*wait) {
	short := b.used + n - b.limit - b.refusedBytes
	var enough int64
	from := len(b.waiting)
	for from > 0 && enough < short && b.waiting[from-1].hold.born > h.born {
		from--
		if y := b.waiting[from].hold; !y.refused { // else it is in refusedBytes
			enough += y.n
		}
	}
	if short <= 0 || enough < short {
		return nil
	}
	left := b.waiting[:from]
	for _, w := range b.waiting[from:] {
		y := w.hold
		if y.n == 0 { // it holds nothing
			left = append(left, w)
			continue
		}
		if !y.refused {
			b.refusedBytes += y.n
		}
		y.wait, y.refused = nil, true
		b.refusals++
		refused = append(refused, w)
	}
	clear(b.waiting[len(left):])
	b.waiting = left
	return refused
}
