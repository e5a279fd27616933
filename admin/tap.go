package admin

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tandem-rpc/tandem"
)

// Limits of taps.
const (
	maxTaps       = 8
	tapRate       = 100
	maxTapRate    = 1000
	tapTime       = time.Minute
	maxTapTime    = 10 * time.Minute
	tapBacklog    = 256      // events that wait for a slow reader
	maxTapMessage = 16 << 10 // bytes of a message that are shown
)

// tap is a caller that sees calls as they end.
type tap struct {
	req    TapRequest
	events chan TapEvent
	redact func(method string, message []byte) []byte

	mu     sync.Mutex
	second time.Time // in which shown events were sent
	shown  int
	missed uint64
}

// tap runs a tap until its time is over, the caller ends it, or the server drains.
func (a *Admin) tap(ctx context.Context, s *tandem.Stream[TapRequest, TapEvent], draining <-chan struct{}) error {
	req, err := s.Recv()
	if err != nil {
		return err
	}
	need := Developer
	if req.Payload {
		need = Administrator
	}
	if err := a.allow(ctx, need); err != nil {
		return err
	}
	t, err := a.newTap(*req)
	if err != nil {
		return err
	}
	defer a.removeTap(t)
	ctx, cancel := context.WithTimeout(ctx, t.req.For)
	defer cancel()
	for {
		select {
		case e := <-t.events:
			if err := s.Send(&e); err != nil {
				return err
			}
		case <-draining:
			return tandem.Errorf(tandem.Unavailable, "the server is shutting down")
		case <-ctx.Done():
			return nil
		case <-s.Context().Done():
			return nil
		}
	}
}

func (a *Admin) newTap(req TapRequest) (*tap, error) {
	if _, err := path.Match(req.Method, ""); err != nil {
		return nil, tandem.Errorf(tandem.InvalidArgument, "method %q is no pattern: %v", req.Method, err)
	}
	if req.Payload && !a.payloads {
		return nil, tandem.Errorf(tandem.FailedPrecondition, "this process shows no messages: see admin.WithPayloads")
	}
	if req.Rate < 0 || req.For < 0 || req.Share < 0 || req.Share > 1 {
		return nil, tandem.Errorf(tandem.InvalidArgument, "rate and time must not be negative, and the share from 0 to 1")
	}
	if req.Client != "" && req.Client != "*" && !a.knows(req.Client) {
		return nil, errNoClient
	}
	req.Rate, req.For = within(req.Rate, tapRate, maxTapRate), within(req.For, tapTime, maxTapTime)
	t := &tap{req: req, events: make(chan TapEvent, tapBacklog), redact: a.redact}
	if t.redact == nil {
		t.redact = hideSecrets
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var all []*tap
	if now := a.taps.Load(); now != nil {
		all = *now
	}
	if len(all) >= maxTaps {
		return nil, tandem.Errorf(tandem.ResourceExhausted, "%d taps run already, which is the limit", maxTaps)
	}
	all = append(slices.Clone(all), t)
	a.taps.Store(&all)
	return t, nil
}

// within returns v, or usual for 0, and at most the limit.
func within[T int | time.Duration](v, usual, limit T) T {
	if v == 0 {
		return usual
	}
	return min(v, limit)
}

func (a *Admin) removeTap(t *tap) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(*a.taps.Load()), func(other *tap) bool { return other == t })
	if len(all) == 0 {
		a.taps.Store(nil)
		return
	}
	a.taps.Store(&all)
}

// wanting returns the taps that a call may be shown to, as far as that is known when it begins.
func wanting(all []*tap, m *method, call *tandem.Call) (list []*tap) {
	for _, t := range all {
		if t.wants(m, call) {
			list = append(list, t)
		}
	}
	return list
}

func (t *tap) wants(m *method, call *tandem.Call) bool {
	r := &t.req
	if r.Client != m.client && (r.Client != "*" || m.client == "") {
		return false
	}
	if r.Method != "" {
		if ok, _ := path.Match(r.Method, call.Method); !ok { // the pattern was checked
			return false
		}
	}
	return r.Share == 0 || rand.Float64() < r.Share
}

// show sends an event to the reader of the tap, unless there are too many.
func (t *tap) show(o *observed, call *tandem.Call, s Span) {
	r := &t.req
	if r.Failed && s.Error == "" || s.Took < r.AtLeast || !strings.HasPrefix(s.Peer, r.Peer) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.Sub(t.second) >= time.Second {
		t.second, t.shown = now, 0
	}
	if t.shown >= r.Rate {
		t.missed++
		return
	}
	e := TapEvent{Span: s, Kind: kindName(call.Kind), Metadata: shownMetadata(call.Metadata), Missed: t.missed}
	if o.body != nil && r.Payload {
		e.Request, e.Reply = t.message(s.Method, o.body.request), t.message(s.Method, o.body.reply)
	}
	select {
	case t.events <- e:
		t.shown++
		t.missed = 0
	default:
		t.missed++
	}
}

func (t *tap) message(method string, text json.RawMessage) json.RawMessage {
	if text == nil {
		return nil
	}
	shown := t.redact(method, text)
	if len(shown) > maxTapMessage {
		return asJSON(cut(string(shown), maxTapMessage))
	}
	return shown
}

// asJSON returns a message as JSON; nil if it has none.
func asJSON(v any) (text json.RawMessage) {
	var err error
	if m, ok := v.(proto.Message); ok {
		text, err = protojson.Marshal(m)
	} else {
		text, err = json.Marshal(v)
	}
	if err != nil {
		return nil
	}
	return text
}

// secretNames are in the names of what is not shown.
var secretNames = [...]string{"password", "passwd", "secret", "token", "credential", "authorization", "cookie", "key"}

func isSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretNames[:], func(part string) bool { return strings.Contains(name, part) })
}

const hidden = "(hidden)"

// shownMetadata returns metadata without credentials.
func shownMetadata(m tandem.Metadata) map[string]string {
	if len(m) == 0 {
		return nil
	}
	out := make(map[string]string, len(m))
	for name, values := range m {
		text := hidden
		if !isSecret(name) {
			text = cut(strings.Join(values, ", "), maxError)
		}
		out[name] = text
	}
	return out
}

// hideSecrets hides the values of fields that are named like secrets.
func hideSecrets(_ string, message []byte) []byte {
	var v any
	if json.Unmarshal(message, &v) != nil {
		return nil
	}
	out, err := json.Marshal(hide(v))
	if err != nil {
		return nil
	}
	return out
}

func hide(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			if isSecret(name) {
				v[name] = hidden
			} else {
				v[name] = hide(v[name])
			}
		}
	case []any:
		for i := range v {
			v[i] = hide(v[i])
		}
	}
	return v
}
