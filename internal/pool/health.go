package pool

import (
	"errors"
	"maps"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/balance"
	"github.com/tandem-rpc/tandem/internal/rules"
	"github.com/tandem-rpc/tandem/internal/session"
	"github.com/tandem-rpc/tandem/resilience"
)

// faulty reports whether an error counts as a failure of the instance.
func faulty(err error) bool {
	switch tandem.CodeOf(err) {
	case tandem.Unavailable, tandem.DeadlineExceeded, tandem.Internal, tandem.DataLoss:
		return !errors.Is(err, session.ErrDraining) && !moved(err)
	}
	return false
}

// health keeps the breakers of a pool's members.
type health struct {
	out  atomic.Int64 // members that get no calls: their breakers are not closed, or they are silent
	shut atomic.Int64 // methods' breakers that are not closed, and members' breakers that are forced open

	pool *Pool
	next atomic.Int64 // time of the next outlier check, by balance.Now

	mu       sync.Mutex // held to check for outliers, to count, and to make breakers of methods
	outliers *resilience.Outliers
	looked   time.Duration // time of the last outlier check
	forces   map[string]*force

	ejections atomic.Uint64 // times that a member's breaker has opened after it was closed
}

func (h *health) init(p *Pool) {
	h.pool, h.outliers = p, resilience.NewOutliers(resilience.OutlierConfig{})
	h.next.Store(math.MinInt64)
	if e := h.rules().Ejection; e != nil {
		h.outliers.Configure(e.Outliers)
	}
}

// rules returns the rules of the client.
func (h *health) rules() *rules.Rules { return h.pool.rules.Load() }

// steer applies the new rules of the client to the members of the view.
func (h *health) steer(v *view) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rules()
	if r.Ejection != nil {
		h.outliers.Configure(r.Ejection.Outliers)
	}
	for m := range v.all() {
		if r.Ejection != nil {
			m.breaker.Configure(r.Ejection.Breaker)
		} else {
			m.breaker.Reset()
			m.slow.Store(0)
			h.forceLocked(m.peer.Instance, m.breaker)
		}
		kept := map[string]*resilience.Breaker{}
		for method, b := range m.breakers() {
			if config := r.Of(method).Breaker; config != nil {
				b.Configure(*config)
				kept[method] = b
			}
		}
		m.methods.Store(&kept)
	}
}

// breaker makes the breaker of a new member, the instance of that ID.
func (h *health) breaker(id string) *resilience.Breaker {
	h.mu.Lock()
	defer h.mu.Unlock()
	var config resilience.BreakerConfig
	if e := h.rules().Ejection; e != nil {
		config = e.Breaker
	}
	b := resilience.NewBreaker(config)
	h.forceLocked(id, b)
	return b
}

// passes reports whether a member whose breaker is not closed may get a call.
func (h *health) passes(v *view, m *member) bool {
	return h.panics(v) && !m.isForcedOpen() || m.breaker.Ready(balance.Now())
}

// panics reports whether more members are left out than MaxShare allows: then none is left out,
// as the others could not bear the load.
func (h *health) panics(v *view) bool {
	return float64(h.out.Load()) > h.rules().MaxShare*float64(len(v.nodes))
}

// maxBreakers bounds the methods of one instance that have breakers.
const maxBreakers = 4096

// method returns the breaker of a method of a member, nil if it has none.
func (h *health) method(m *member, call *tandem.Call) *resilience.Breaker {
	if !h.rules().Breakers || h.pool.RuleOf(call).Breaker == nil {
		return nil
	}
	if b := m.breakers()[call.Method]; b != nil {
		return b
	}
	return h.newMethod(m, call.Method)
}

// newMethod makes the breaker of a method of a member. It holds the mutex against steer:
// otherwise the breaker might get the rules before.
func (h *health) newMethod(m *member, method string) *resilience.Breaker {
	h.mu.Lock()
	defer h.mu.Unlock()
	config, known := h.rules().Of(method).Breaker, m.breakers()
	if b := known[method]; b != nil || config == nil || len(known) >= maxBreakers {
		return b
	}
	more := make(map[string]*resilience.Breaker, len(known)+1)
	maps.Copy(more, known)
	more[method] = resilience.NewBreaker(*config)
	m.methods.Store(&more)
	return more[method]
}

// breakers returns the breakers of the member's methods. The map must not be changed.
func (m *member) breakers() map[string]*resilience.Breaker {
	if known := m.methods.Load(); known != nil {
		return *known
	}
	return nil
}

// open reports whether the breaker of the call's method is open at a member, or the member's own is
// forced open.
func (h *health) open(m *member, call *tandem.Call) bool {
	if h.shut.Load() == 0 || m == nil {
		return false
	}
	if m.isForcedOpen() {
		return true
	}
	b := h.method(m, call)
	return b != nil && !b.Ready(balance.Now())
}

// anyOpen reports whether the breaker of the call's method is open at any member.
func (h *health) anyOpen(v *view, call *tandem.Call) bool {
	for m := range v.all() {
		if h.open(m, call) {
			return true
		}
	}
	return false
}

// admit reports whether the breakers let a call through to the member that was picked for it. A
// nil member, which is not connected to yet, has no breakers.
func (h *health) admit(v *view, m *member, call *tandem.Call) bool {
	if m == nil || h.out.Load()+h.shut.Load() == 0 {
		return true
	}
	if !m.breaker.Closed() && (!h.panics(v) || m.isForcedOpen()) && !m.breaker.Admit(balance.Now()) {
		return false
	}
	if b := h.method(m, call); b != nil && !b.Closed() && !b.Admit(balance.Now()) {
		m.breaker.Forget()
		return false
	}
	return true
}

// forget records in the breakers that a call which admit let through was not made.
func (h *health) forget(m *member, call *tandem.Call) {
	m.breaker.Forget()
	if b := h.method(m, call); b != nil {
		b.Forget()
	}
}

// done records in the breakers how a call ended. began is when it began.
func (h *health) done(m *member, call *tandem.Call, began time.Duration, err error) {
	changed := false
	if r := h.rules(); r.Ejection != nil {
		changed = h.tell(m.breaker, m, call, began, err)
		if next := h.next.Load(); int64(began) >= next && h.next.CompareAndSwap(next, int64(began+r.Every)) {
			changed = h.look() || changed
		}
	}
	if b := h.method(m, call); b != nil {
		changed = h.tell(b, m, call, began, err) || changed
	}
	if changed {
		h.count()
	}
}

// tell counts a call in one breaker and reports whether that opened or closed it. A call that
// took as long as the member's latency limit, if there is one, counts as failed while the
// member's breaker is not closed.
func (h *health) tell(b *resilience.Breaker, m *member, call *tandem.Call, began time.Duration, err error) bool {
	if tandem.CodeOf(err) == tandem.Canceled || errors.Is(err, session.ErrDraining) || moved(err) {
		b.Forget() // the call says nothing about the instance
		return false
	}
	method, limit := call.Method, time.Duration(0)
	if b == m.breaker {
		method, limit = "", m.limit(call)
	}
	failed, now := faulty(err), began
	if failed || !b.Closed() {
		now = balance.Now()
		failed = failed || limit > 0 && now-began >= limit && !b.Closed()
	}
	wasClosed := b.Closed()
	changed := b.Done(began, now, failed)
	if changed {
		if b == m.breaker {
			h.turned(m, wasClosed)
			m.note(err)
		}
		h.pool.cfg.Log.Warn("circuit breaker changed", "instance", m.peer.Instance, "method", method, "state", b.State(now), "error", err)
	}
	return changed
}

// turned notes that the breaker of a member has opened, or closed, after a call.
func (h *health) turned(m *member, wasClosed bool) {
	switch {
	case m.breaker.Closed():
		m.slow.Store(0) // when it opens again it is for another reason
	case wasClosed:
		h.ejections.Add(1)
	}
}

// maxReason bounds the text of the error that opened a breaker, in bytes.
const maxReason = 300

// note keeps the error of the call that has opened the member's breaker.
func (m *member) note(err error) {
	if m.breaker.Closed() || err == nil {
		return
	}
	text := err.Error()
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	m.why.Store(&text)
}

// limit returns the latency from which on a call counts as too slow at an instance that was
// ejected for slowness; 0 for no limit, and for streams, whose duration says nothing.
func (m *member) limit(call *tandem.Call) time.Duration {
	if call.Kind == tandem.Streaming {
		return 0
	}
	return time.Duration(m.slow.Load())
}

// look searches for outliers among the members and trips their breakers. It reports whether it
// ejected one.
func (h *health) look() (ejected bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v := h.pool.view.Load()
	samples := make([]resilience.Sample, len(v.nodes))
	for i, n := range v.nodes {
		ended, failed := n.Stats.Calls()
		samples[i] = resilience.Sample{ID: n.Instance.ID, Calls: ended, Failures: failed, Latency: n.Stats.Latency()}
	}
	// Outliers measures time by looks, so after a pause in the calls it starts again from this
	// one.
	now, config := balance.Now(), h.outliers.Config()
	if now-h.looked > config.Window+config.Every {
		h.outliers = resilience.NewOutliers(config)
		h.outliers.Look(samples)
		h.looked = now
		h.next.Store(int64(now + config.Every/2)) // soon: the calls may come in short bursts
		return false
	}
	h.looked = now
	outliers := map[string]resilience.Outlier{}
	for _, o := range h.outliers.Look(samples) {
		outliers[o.ID] = o
	}
	for i := 0; i < len(v.nodes) && len(outliers) > 0; i++ {
		if o, bad := outliers[v.nodes[i].Instance.ID]; bad {
			ejected = h.ejectLocked(v, v.nodes[i], o) || ejected
		}
	}
	return ejected
}

// ejectLocked trips the breaker of an outlier, unless too many are left out already.
func (h *health) ejectLocked(v *view, n *balance.Node, o resilience.Outlier) bool {
	m := v.member(n)
	if m == nil {
		return false
	}
	room := float64(h.out.Load()+1) <= h.rules().MaxShare*float64(len(v.nodes))
	if !room || !m.breaker.Trip(balance.Now()) {
		return false
	}
	m.slow.Store(int64(o.Limit))
	m.why.Store(&o.Reason)
	h.out.Add(1)
	h.ejections.Add(1)
	h.pool.cfg.Log.Warn("instance ejected", "instance", o.ID, "reason", o.Reason)
	return true
}

// count counts the breakers that are not closed and the suspects, after a change of
// one or of the list.
func (h *health) count() {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out, shut int64
	for m := range h.pool.view.Load().all() {
		if !m.breaker.Closed() || m.silent() {
			out++
		}
		if m.isForcedOpen() {
			shut++
		}
		for _, b := range m.breakers() {
			if !b.Closed() {
				shut++
			}
		}
	}
	h.out.Store(out)
	h.shut.Store(shut)
}
