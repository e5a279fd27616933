package admin

import (
	"encoding/hex"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/pool"
)

// maxSpans is how many spans are kept.
const maxSpans = 2000

// observed is a call that is timed while it runs.
type observed struct {
	m     *method
	began time.Time
	taps  []*tap // those that may show it; nil for none
	body  *tappedBody
	kept  bool   // it may be kept as a span
	tries *tries // attempts of a client's call; nil for none
}

// tries are the attempts of a call, some of which may end after the call.
type tries struct {
	mu   sync.Mutex
	list []SpanAttempt
}

func (t *tries) add(attempt any) {
	a := attempt.(pool.Explained).Attempt //nolint:forcetypeassert // what a pool passes
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, SpanAttempt{Instance: a.Chosen, Began: a.Began, Took: a.Took, Error: cut(a.Error, maxError)})
}

func (m *method) newObserved(call *tandem.Call) *observed {
	o := &observed{m: m, began: time.Now()}
	o.kept = call.Trace.Valid() && m.admin.keepsTrace(call.Trace.ID)
	if taps := m.admin.taps.Load(); taps != nil {
		o.taps = wanting(*taps, m, call)
	}
	if m.client != "" && call.Explain == nil && (o.kept || o.taps != nil) {
		o.tries = new(tries)
		call.Explain = o.tries.add
	}
	for _, t := range o.taps {
		if t.req.Payload && m.client == "" && call.Kind != tandem.Streaming {
			o.body = &tappedBody{Body: call.Body}
			call.Body = o.body
			break
		}
	}
	return o
}

// end shows the call to taps, and keeps it.
func (o *observed) end(call *tandem.Call, took time.Duration, err error) {
	if o.body != nil {
		call.Body = o.body.Body
	}
	if !o.kept && o.taps == nil {
		return
	}
	s := o.span(call, took, err)
	if o.kept {
		o.m.admin.spans.add(s)
		o.m.admin.kept.Add(1)
	}
	for _, t := range o.taps {
		t.show(o, call, s)
	}
}

const maxError = 1024 // bytes of an error's text that are kept

func (o *observed) span(call *tandem.Call, took time.Duration, err error) Span {
	s := Span{Client: o.m.client, Method: call.Method, Began: o.began, Took: took, Code: tandem.OK.String()}
	if call.Trace.Valid() {
		s.Trace, s.Span = hex.EncodeToString(call.Trace.ID[:]), hex.EncodeToString(call.Trace.Span[:])
		if call.Trace.Parent != [8]byte{} {
			s.Parent = hex.EncodeToString(call.Trace.Parent[:])
		}
	}
	if p := call.Peer; p != nil {
		s.Protocol = p.Protocol
		if p.Addr != nil {
			s.Peer = p.Addr.String()
		}
	}
	if err != nil {
		s.Code, s.Error = codeOf(err).String(), cut(err.Error(), maxError)
	}
	if o.tries != nil {
		o.tries.mu.Lock()
		s.Attempts = slices.Clone(o.tries.list)
		o.tries.mu.Unlock()
	}
	return s
}

func cut(text string, n int) string {
	if len(text) > n {
		return text[:n] + "…"
	}
	return text
}

// spansRate is about how many spans are kept in a second.
const spansRate = 50

// keepsTrace reports whether calls of the trace are kept. Which ones are depends on the ID alone,
// so processes keep the same traces, and busier ones fewer of them.
func (a *Admin) keepsTrace(id [16]byte) bool {
	return (uint32(id[14])<<8|uint32(id[15]))&a.keep.Load() == 0
}

// paceSpans adapts how many traces are kept to how many there were in the last second.
func (a *Admin) paceSpans() {
	const most = 1<<16 - 1
	n, mask := a.kept.Swap(0), a.keep.Load()
	switch {
	case n > spansRate && mask < most:
		a.keep.Store(mask<<1 | 1)
	case n < spansRate/4:
		a.keep.Store(mask >> 1)
	}
}

// tappedBody keeps the messages of a call for taps.
type tappedBody struct {
	tandem.Body

	request, reply json.RawMessage
}

func (b *tappedBody) Decode(v any) error {
	err := b.Body.Decode(v)
	if err == nil {
		b.request = asJSON(v)
	}
	return err
}

func (b *tappedBody) Encode(v any) error {
	err := b.Body.Encode(v)
	if err == nil {
		b.reply = asJSON(v)
	}
	return err
}
