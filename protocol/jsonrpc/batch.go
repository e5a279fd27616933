package jsonrpc

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/tandem-rpc/tandem"
)

// maxBatch is how many requests a batch may have.
const maxBatch = 1024

// errTooMany is the error for a batch that was discarded unparsed.
var errTooMany = tandem.Errorf(tandem.ResourceExhausted, "a batch has at most %d requests: send several", maxBatch)

// batch collects the responses to the requests of one batch.
type batch struct {
	mu      sync.Mutex
	answers [][]byte // responses in the order of the requests; nil for a request without a response
	size    int      // bytes of all responses
	left    int      // requests without a response yet
	limit   int      // bytes; limit of size
	done    func([]byte)
}

func newBatch(requests, limit int, done func([]byte)) *batch {
	return &batch{answers: make([][]byte, requests), left: requests, limit: limit, done: done}
}

// serveBatch serves a batch. Its requests run concurrently; their responses are sent
// together, in the order of the requests, when the last has ended. The number of requests
// was checked when the message was read.
func (c *conn) serveBatch(ctx context.Context, message []byte, done func(answer []byte)) {
	var requests []json.RawMessage
	if err := json.Unmarshal(message, &requests); err != nil {
		done(failed(parseFailed, err))
		return
	}
	if len(requests) == 0 {
		done(failed(invalidRequest, tandem.Errorf(tandem.InvalidArgument, "a batch without requests: 1 to %d will do", maxBatch)))
		return
	}
	b := newBatch(len(requests), c.MaxMessage(), done)
	for i, r := range requests {
		c.inBatch(ctx, r, func(r *request, answer []byte) { b.answered(i, r, answer) })
	}
}

// inBatch serves one request of a batch, which must be of version 2.0.
func (c *conn) inBatch(ctx context.Context, message json.RawMessage, answered func(*request, []byte)) {
	r, err := parse(message)
	if err == nil && r.old() {
		err = &fault{invalidRequest, tandem.Errorf(tandem.InvalidArgument, "it has no version")}
	}
	if err != nil {
		r.Version = version2
		answered(r, r.failed(err))
		return
	}
	c.call(ctx, r, func(answer []byte) { answered(r, answer) })
}

// answered records the response to the request at that place, nil for none, and sends all
// responses after the last. A response that exceeds the limit is replaced by an error,
// since a small batch may cause large responses.
func (b *batch) answered(place int, r *request, answer []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if answer != nil && b.size+len(answer) > b.limit {
		answer = r.failed(tandem.Errorf(tandem.ResourceExhausted, "the answers of a batch have at most %d bytes", b.limit))
	}
	b.answers[place] = answer
	b.size += len(answer)
	if b.left--; b.left == 0 {
		b.done(b.joined())
	}
}

// joined returns the responses as an array, nil if there are none.
func (b *batch) joined() []byte {
	present := slices.DeleteFunc(b.answers, func(answer []byte) bool { return answer == nil })
	if len(present) == 0 {
		return nil
	}
	all := make([]byte, 0, b.size+len(present)+1)
	all = append(append(append(all, '['), bytes.Join(present, []byte{','})...), ']')
	return all
}
