package jsonrpc

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/tandem-rpc/tandem"
)

// maxBatch is how many requests a batch may have.
const maxBatch = 1024

// batch collects the answers to requests that came together.
type batch struct {
	mu      sync.Mutex
	answers []byte // an array, not yet closed
	left    int    // requests that are not answered yet
	limit   int    // bytes of answers
	done    func([]byte)
}

// serveBatch serves requests that came together. They run at the same time, and are
// answered together when the last has ended.
func (c *conn) serveBatch(ctx context.Context, message []byte, done func(answer []byte)) {
	var requests []json.RawMessage
	if err := json.Unmarshal(message, &requests); err != nil {
		done(failed(parseFailed, err))
		return
	}
	if n := len(requests); n == 0 || n > maxBatch {
		done(failed(invalidRequest, tandem.Errorf(tandem.InvalidArgument, "a batch of %d requests: 1 to %d will do", n, maxBatch)))
		return
	}
	b := &batch{left: len(requests), limit: c.MaxMessage(), done: done}
	for _, r := range requests {
		c.inBatch(ctx, r, b)
	}
}

// inBatch serves one request of a batch, which has the form of version 2.0.
func (c *conn) inBatch(ctx context.Context, message json.RawMessage, b *batch) {
	r, err := parse(message)
	if err == nil && r.old() {
		err = &fault{invalidRequest, tandem.Errorf(tandem.InvalidArgument, "it has no version")}
	}
	if err != nil {
		r.Version = version2
		b.answered(r, r.failed(err))
		return
	}
	c.call(ctx, r, func(answer []byte) { b.answered(r, answer) })
}

// answered adds an answer, nil for none, and sends all after the last. An answer for
// which there is no room is replaced by an error: a small batch may ask for a lot.
func (b *batch) answered(r *request, answer []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answer != nil && len(b.answers)+len(answer) > b.limit {
		answer = r.failed(tandem.Errorf(tandem.ResourceExhausted, "the answers of a batch have at most %d bytes", b.limit))
	}
	if answer != nil {
		separator := byte('[')
		if len(b.answers) > 0 {
			separator = ','
		}
		b.answers = append(append(b.answers, separator), answer...)
	}
	if b.left--; b.left > 0 {
		return
	}
	if len(b.answers) > 0 {
		b.answers = append(b.answers, ']')
	}
	b.done(b.answers)
}
