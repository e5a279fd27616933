package console

import (
	"cmp"
	"context"
	"encoding/hex"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
)

const (
	maxProcesses = 300    // that are asked for traces
	maxFound     = 500    // calls that a search returns
	maxTrace     = 2000   // spans of one trace
	maxGathered  = 20_000 // spans that processes return together
	maxMissing   = 20     // processes whose errors are returned
	mostSpans    = 1000   // that an instance returns
)

// gatherSpans asks processes for spans. Those that match no more than the request says are kept.
func (c *Console) gatherSpans(ctx context.Context, rows []InstanceRow, req admin.SpansRequest) *Gathered {
	out := &Gathered{Spans: []TracedSpan{}, Missing: []Missing{}, Left: max(0, len(rows)-maxProcesses)}
	rows = rows[:min(len(rows), maxProcesses)]
	out.Asked = len(rows)
	req.Max = min(mostSpans, max(1, maxGathered/max(1, len(rows))))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range rows {
		r := &rows[i]
		wg.Go(func() {
			got, err := ask[admin.Spans](ctx, c.asker, &r.Instance, "Spans", req)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				out.Silent++
				if len(out.Missing) < maxMissing {
					out.Missing = append(out.Missing, Missing{List: r.List, Instance: r.ID, Error: short(err)})
				}
				return
			}
			if len(got.Spans) >= req.Max {
				out.Full++
			}
			for _, s := range got.Spans {
				out.Spans = append(out.Spans, TracedSpan{List: r.List, Instance: r.ID, Span: s})
			}
		})
	}
	wg.Wait()
	slices.SortFunc(out.Missing, func(a, b Missing) int {
		return cmp.Or(strings.Compare(a.List, b.List), strings.Compare(a.Instance, b.Instance))
	})
	slices.SortFunc(out.Spans, func(a, b TracedSpan) int {
		return cmp.Or(b.Began.Compare(a.Began), strings.Compare(a.Span.Span, b.Span.Span))
	})
	return out
}

// traces searches the recent calls of a list, or of all.
func (c *Console) traces(ctx context.Context, _ User, req *TracesRequest) (*Gathered, error) {
	of, err := c.listOrAll(req.List)
	if err != nil {
		return nil, err
	}
	if err := checkTrace(req.Trace); req.Trace != "" && err != nil {
		return nil, err
	}
	pattern := req.pattern()
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, tandem.Errorf(tandem.InvalidArgument, "method %q is no pattern: %v", req.Method, err)
	}
	if req.AtLeast < 0 {
		return nil, tandem.Errorf(tandem.InvalidArgument, "a negative time")
	}
	rows, without := c.processes(of)
	failed := req.Code != "" && req.Code != tandem.OK.String()
	out := c.gatherSpans(ctx, rows, admin.SpansRequest{Trace: strings.ToLower(req.Trace), Method: pattern, AtLeast: req.AtLeast, Failed: failed})
	out.Without = without
	out.Spans = slices.DeleteFunc(out.Spans, func(s TracedSpan) bool {
		return req.Code != "" && req.Code != s.Code && (req.Code != anyError || s.Code == tandem.OK.String()) || isOwn(serviceOf(s.Method))
	})
	out.Spans = onceEach(out.Spans)
	out.Cut = max(0, len(out.Spans)-maxFound)
	out.Spans = out.Spans[:len(out.Spans)-out.Cut]
	return out, nil
}

// anyError stands for all codes but ok.
const anyError = "error"

// pattern returns the pattern of the methods that are searched.
func (r *TracesRequest) pattern() string {
	service := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(r.Service)
	switch {
	case service == "":
		return r.Method
	case r.Method == "":
		return service + ".*"
	case strings.Contains(r.Method, "."):
		return r.Method
	}
	return service + "." + r.Method
}

// onceEach drops what servers say of calls that their callers tell of too: those know the attempts.
func onceEach(spans []TracedSpan) []TracedSpan {
	type call struct{ trace, span, method string }
	called := map[call]bool{}
	for i := range spans {
		if s := &spans[i]; s.Client != "" {
			called[call{s.Trace, s.Span.Span, s.Method}] = true
		}
	}
	return slices.DeleteFunc(spans, func(s TracedSpan) bool { return s.Client == "" && called[call{s.Trace, s.Parent, s.Method}] })
}

// trace gathers one trace from all processes.
func (c *Console) trace(ctx context.Context, _ User, req *TraceRequest) (*Gathered, error) {
	if err := checkTrace(req.Trace); err != nil {
		return nil, err
	}
	of, err := c.listOrAll(req.List)
	if err != nil {
		return nil, err
	}
	rows, without := c.processes(nil)
	if of != nil { // the processes that most likely know it are not beyond the bound
		near, _ := c.processes(of)
		isNear := map[figureKey]bool{}
		for i := range near {
			isNear[figureKey{near[i].List, near[i].ID}] = true
		}
		slices.SortStableFunc(rows, func(a, b InstanceRow) int {
			return cmp.Compare(far(isNear[figureKey{a.List, a.ID}]), far(isNear[figureKey{b.List, b.ID}]))
		})
	}
	out := c.gatherSpans(ctx, rows, admin.SpansRequest{Trace: strings.ToLower(req.Trace)})
	out.Without = without
	slices.Reverse(out.Spans)
	out.Cut = max(0, len(out.Spans)-maxTrace)
	out.Spans = out.Spans[:len(out.Spans)-out.Cut]
	return out, nil
}

func far(near bool) int {
	if near {
		return 0
	}
	return 1
}

// listOrAll returns a list by its name; nil for "".
func (c *Console) listOrAll(name string) (*list, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // all lists
	}
	return c.list(name)
}

// checkTrace returns an error unless a text is the ID of a trace.
func checkTrace(id string) error {
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 {
		return tandem.Errorf(tandem.InvalidArgument, "%.64q is not the ID of a trace: want 32 hexadecimal digits", id)
	}
	return nil
}
