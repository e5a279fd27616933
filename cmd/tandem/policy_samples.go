package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/listing"
	"github.com/tandem-rpc/tandem/policy"
	"github.com/tandem-rpc/tandem/registry"
)

// self is what routes match of a client.
type self struct {
	Caller string `json:"caller,omitempty"`
	Zone   string `json:"zone,omitempty"`
}

// sample is a call of a file of samples.
type sample struct {
	self

	Method   string            `json:"method"`
	Metadata map[string]string `json:"metadata,omitempty"`
	HashKey  string            `json:"hashKey,omitempty"`
	Version  string            `json:"version,omitempty"`
	Group    string            `json:"group,omitempty"`
	Tags     map[string]string `json:"tags,omitempty"`
	Count    float64           `json:"count,omitempty"` // how many such calls; 0 means 1
}

// Bounds of a file of samples.
const (
	maxSamples     = 100_000
	maxSampleBytes = 64 << 20
	maxSampleLine  = 1 << 20
	maxSelves      = 100 // clients that differ in caller or zone
)

// readSamples reads the lines of a file.
func readSamples(sh *shell, path string) (list []sample, err error) {
	in := sh.in
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close() //nolint:errcheck // it was only read
		in = f
	}
	lines := bufio.NewScanner(io.LimitReader(in, maxSampleBytes))
	lines.Buffer(nil, maxSampleLine)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var s sample
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, n, err)
		}
		if s.Method == "" || !(s.Count >= 0) || math.IsInf(s.Count, 0) || len(list) == maxSamples {
			return nil, fmt.Errorf("%s: line %d: want a method, a count of at least 0, and at most %d lines", path, n, maxSamples)
		}
		if s.Count == 0 {
			s.Count = 1
		}
		list = append(list, s)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: no calls", path)
	}
	return list, nil
}

// options returns the options of the call.
func (s *sample) options() (list []tandem.CallOption) {
	for key, value := range s.Metadata {
		list = append(list, client.Metadata(key, value))
	}
	if s.HashKey != "" {
		list = append(list, client.HashKey(s.HashKey))
	}
	if r := (tandem.Route{Version: s.Version, Group: s.Group, Tags: s.Tags}); s.Version != "" || s.Group != "" || len(s.Tags) > 0 {
		list = append(list, client.Route(r))
	}
	return list
}

// sampledPolicy is what tandem policy test --samples prints. Its fields are documented in
// docs/reference/cli.md.
type sampledPolicy struct {
	Target  string        `json:"target"`
	Policy  string        `json:"policy"`
	Against string        `json:"against,omitempty"`
	Calls   float64       `json:"calls"`
	Goes    []sampledPart `json:"goes"`
	Moved   float64       `json:"moved"`           // percent of the calls
	Moves   []sampledMove `json:"moves,omitempty"` // the largest first
}

// sampledPart is a share of the calls that goes to the same subset by the same route.
type sampledPart struct {
	Route   string  `json:"route,omitempty"`  // "" if none matched
	Subset  string  `json:"subset,omitempty"` // "" if they would fail
	Percent float64 `json:"percent"`
}

// sampledMove is a share of the calls that goes elsewhere than under the policy that it was compared
// with.
type sampledMove struct {
	From    string  `json:"from,omitempty"` // subsets; "" if the calls fail
	To      string  `json:"to,omitempty"`
	Percent float64 `json:"percent"`
}

// trialOf is a policy with its clients, one for each caller and zone.
type trialOf struct {
	policy  *policy.Policy
	version string
	clients map[self]*client.Client
}

func (f *trialFlags) runSamples(ctx context.Context, sh *shell, p *listing.Printer, args []string) error {
	samples, err := readSamples(sh, f.samples)
	if err != nil {
		return err
	}
	names := []string{args[0]}
	if f.against != "" {
		names = append(names, f.against)
	}
	trials := make([]trialOf, len(names))
	for i, name := range names {
		t := &trials[i]
		if t.policy, t.version, err = readAnyPolicy(ctx, sh, name); err != nil {
			return err
		}
		t.clients = map[self]*client.Client{}
		defer func() {
			for _, c := range t.clients {
				_ = c.Close() // its error changes nothing here
			}
		}()
	}
	at, err := f.access.place(ctx, args[1])
	if err != nil {
		return err
	}
	_, effect, err := at.effect(ctx)
	if err != nil {
		return err
	}
	count := newSampling()
	for i := range samples {
		s := &samples[i]
		s.Caller, s.Zone = cmp.Or(s.Caller, f.self.Caller), cmp.Or(s.Zone, f.self.Zone)
		var parts [][]sampledPart
		for j := range trials {
			c, err := f.clientOf(ctx, &trials[j], at, effect.Enabled, s)
			if err != nil {
				return err
			}
			parts = append(parts, partsOf(c.Describe(s.Method, s.options()...)))
		}
		count.add(s.Count, parts)
	}
	result := count.result()
	result.Target, result.Policy = registry.Redact(at.target), registry.Redact(args[0])
	if f.against != "" {
		result.Against = registry.Redact(f.against)
	}
	return p.Print(&listing.List{Notes: result.lines(), Value: result})
}

// clientOf returns the client that a sample comes from, connected.
func (f *trialFlags) clientOf(ctx context.Context, t *trialOf, at *place, list []tandem.Instance, s *sample) (*client.Client, error) {
	if c := t.clients[s.self]; c != nil {
		return c, nil
	}
	if len(t.clients) == maxSelves {
		return nil, fmt.Errorf("%s: more than %d different pairs of caller and zone", f.samples, maxSelves)
	}
	c, err := f.client(at, list, t.policy, t.version, s.self)
	if err != nil {
		return nil, err
	}
	t.clients[s.self] = c
	return c, f.connect(ctx, c, s.Method)
}

// partsOf returns where an explained call goes, in shares whose sum is 1.
func partsOf(e *client.Explanation) []sampledPart {
	if len(e.Attempts) == 0 || e.Attempts[0].Route == nil || e.Attempts[0].Route.Route == "" {
		return []sampledPart{{Subset: new(policy.Subset).String(), Percent: 1}}
	}
	var list []sampledPart
	for _, c := range e.Attempts[0].Route.Chances {
		list = append(list, sampledPart{e.Attempts[0].Route.Route, c.Goes, c.Percent / 100})
	}
	return list
}

// sampling adds up where calls go.
type sampling struct {
	calls float64
	goes  map[sampledPart]float64 // by route and subset
	moves map[sampledMove]float64
}

func newSampling() *sampling {
	return &sampling{goes: map[sampledPart]float64{}, moves: map[sampledMove]float64{}}
}

// add counts calls of one kind under the new policy and, if there is one, the old.
func (c *sampling) add(calls float64, parts [][]sampledPart) {
	c.calls += calls
	left, lost := map[string]float64{}, map[string]float64{}
	for _, p := range parts[0] {
		c.goes[sampledPart{Route: p.Route, Subset: p.Subset}] += calls * p.Percent
		left[p.Subset] += p.Percent
	}
	if len(parts) == 1 {
		return
	}
	for _, p := range parts[1] {
		lost[p.Subset] += p.Percent
	}
	for subset, before := range lost { // what a subset has under both stays
		stays := min(before, left[subset])
		left[subset] -= stays
		lost[subset] -= stays
	}
	gained := 0.0
	for _, more := range left {
		gained += more
	}
	for from, less := range lost {
		for to, more := range left {
			if less*more > 0 {
				c.moves[sampledMove{From: from, To: to}] += calls * less * more / gained
			}
		}
	}
}

func (c *sampling) result() *sampledPolicy {
	r := &sampledPolicy{Calls: c.calls, Goes: []sampledPart{}}
	percent := func(calls float64) float64 { return math.Round(1e6*calls/c.calls) / 1e4 }
	for p, calls := range c.goes {
		p.Percent = percent(calls)
		r.Goes = append(r.Goes, p)
	}
	slices.SortFunc(r.Goes, func(a, b sampledPart) int {
		return cmp.Or(-cmp.Compare(a.Percent, b.Percent), cmp.Compare(a.Route, b.Route), cmp.Compare(a.Subset, b.Subset))
	})
	moved := 0.0
	for m, calls := range c.moves {
		moved += calls
		m.Percent = percent(calls)
		r.Moves = append(r.Moves, m)
	}
	slices.SortFunc(r.Moves, func(a, b sampledMove) int {
		return cmp.Or(-cmp.Compare(a.Percent, b.Percent), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	r.Moved = percent(moved)
	return r
}

// lines returns the result as text.
func (r *sampledPolicy) lines() []string {
	where := func(subset string) string { return cmp.Or(subset, "nowhere: they fail") }
	lines := []string{fmt.Sprintf("policy %s at %s: %v calls", r.Policy, r.Target, r.Calls)}
	for _, g := range r.Goes {
		by := "by no route"
		if g.Route != "" {
			by = fmt.Sprintf("by route %q", g.Route)
		}
		lines = append(lines, fmt.Sprintf("  %7.4g %% to %s, %s", g.Percent, where(g.Subset), by))
	}
	if r.Against == "" {
		return lines
	}
	lines = append(lines, fmt.Sprintf("%.4g %% of the calls move, compared with %s", r.Moved, r.Against))
	for _, m := range r.Moves {
		lines = append(lines, fmt.Sprintf("  %7.4g %% from %s to %s", m.Percent, strings.TrimSuffix(where(m.From), ": they fail"), where(m.To)))
	}
	return lines
}
