package overload

import (
	"math"
	"sync/atomic"
	"time"
)

// Method is what a [Gate] knows of one method. [Gate.Method] makes one.
type Method struct {
	running atomic.Int64
	limit   atomic.Int64 // of running handlers
	took    atomic.Int64 // ns, an estimate of the median time of handlers that end in time
	inTime  atomic.Int64 // handlers that have ended in time, in this period
	spent   atomic.Int64 // ns, by those
	most    atomic.Int64 // that ran at the same time, in this period
	cutAt   atomic.Int64 // when the limit was cut last
	good    atomic.Int64 // handlers in time that began after that, and ended since slow ones were last judged
	usually atomic.Int64 // ns, usual for who holds no mutex

	// Guarded by the gate's mutex.
	queues     [classes]queue
	served     [classes]int64 // virtual time: how much slot time the method has got
	spacing    int64          // ns between two starts while others wait, an average
	last       int64          // start while others wait
	threshold  int64          // the limit grows quickly below it; 0 for none
	slow       slowness       // of the handlers that have ended since the limit was cut or that was last judged
	fruitless  int            // cuts in a row after which handlers were late as before
	lastLate   float64        // share of late handlers before the last cut
	known      shares         // of slow handlers, at any limit
	knownUntil int64          // it is believed until then
	immunity   time.Duration  // how long that was
	gained     int64          // handlers in time since the limit grew
	bound      bool           // the limit has kept requests back since it grew
	period     int64          // began then
	rate       float64        // handlers in time a ns, a maximum that fades
	easy       int            // periods in a row of which the limit bound nothing
	long       float64        // ns that a handler takes, an average over minutes: with Config.Gradient only
	usual      float64        // ns that a handler takes while no request waits, an average
}

func (m *Method) admits() bool { return m.running.Load() < m.limit.Load() }

func (m *Method) waiting() (n int) {
	for i := range m.queues {
		n += m.queues[i].calls
	}
	return n
}

// done notes a handler that has ended in time.
func (m *Method) done(began, now int64, failed bool) {
	took := now - began
	m.inTime.Add(1)
	if began >= m.cutAt.Load() {
		m.good.Add(1)
	}
	m.spent.Add(took)
	if !failed {
		m.learn(took)
	}
}

// learn moves the estimate of the median by a step: up for a longer time, down for a
// shorter one (frugal streaming, Ma, Muthukrishnan and Sandler 2013). A lost race loses a
// step.
func (m *Method) learn(took int64) {
	old := m.took.Load()
	if old == 0 {
		m.took.Store(max(1, took))
		return
	}
	step := max(1, old/16)
	switch {
	case took > old:
		old += step
	case took < old:
		old -= step
	}
	m.took.Store(max(1, old))
}

// grow raises the limit after a handler that has ended in time, if the limit binds: at first
// by one for each, and beyond the threshold slowly (additive increase and multiplicative
// decrease, Chiu and Jain 1989; slow start, Jacobson 1988).
func (m *Method) grow(cfg *Config) {
	limit := m.limit.Load()
	if cfg.Gradient > 0 {
		return // the gradient raises it
	}
	m.bound = m.bound || 2*m.running.Load() > limit
	if !m.bound {
		return
	}
	if m.threshold == 0 || limit < m.threshold {
		m.limit.Add(1)
		return
	}
	if m.gained++; m.gained >= limit {
		m.limit.Store(limit + max(1, limit/cfg.Growth))
		m.gained, m.bound = 0, false
	}
}

// roll ends a period, if it is over.
func (m *Method) roll(cfg *Config, now int64) {
	if m.period == 0 {
		m.period = now
	}
	took := now - m.period
	if took < int64(cfg.Period) {
		return
	}
	n, spent := m.inTime.Swap(0), m.spent.Swap(0)
	m.rate = max(m.rate*cfg.RateFades, float64(n)/float64(took))
	m.period = now
	most := m.most.Swap(m.running.Load())
	if n > 0 && cfg.Gradient > 0 {
		m.lean(cfg, float64(spent)/float64(n), most)
	}
	limit := m.limit.Load()
	if n > 0 && m.waiting() == 0 && most < limit {
		m.learnUsual(cfg, float64(spent)/float64(n))
	}
	if m.waiting() > 0 || 2*most >= limit {
		m.easy = 0
	} else if m.easy++; m.easy >= cfg.LiftAfter {
		m.limit.Store(cfg.FirstLimit)
		m.threshold, m.fruitless = 0, 0
	}
}

// lean moves the limit by the ratio of the long average of the handlers' time to that of a period:
// down while handlers take longer than they did, and else up by the square root of the limit, so
// that it finds more. A limit of which less than a half was used stays. After gradient2 of
// Netflix's concurrency-limits.
func (m *Method) lean(cfg *Config, mean float64, most int64) {
	const steepest, tooLong, fall = 0.5, 2, 0.95
	if m.long == 0 {
		m.long = mean
	}
	m.long += cfg.LongGain * (mean - m.long)
	if m.long > tooLong*mean { // after an overload it comes down soon
		m.long *= fall
	}
	slope := min(1, max(steepest, cfg.Gradient*m.long/mean))
	limit := float64(m.limit.Load())
	switch {
	case m.limit.Load() < cfg.FirstLimit:
	case slope == 1:
		return // there is no limit, and need be none
	default:
		limit = float64(most)
	}
	if 2*float64(most) < limit {
		return
	}
	limit += cfg.Smooth * (limit*slope + math.Sqrt(limit) - limit)
	m.limit.Store(min(cfg.FirstLimit, max(int64(cfg.LeastLimit), int64(math.Ceil(limit)))))
}

// learnUsual moves the usual time towards that of a period: soon if it is shorter, slowly if
// it is longer, as before handlers are late they take long for some time.
func (m *Method) learnUsual(cfg *Config, mean float64) {
	gain := cfg.UsualGain
	switch {
	case m.usual == 0:
		gain = 1
	case mean < m.usual:
		gain = cfg.ShorterGain
	}
	m.usual += gain * (mean - m.usual)
	m.usually.Store(int64(m.usual))
}

// seen returns how many handlers have ended in time, a ns, and how many ns they usually take.
// In its first period a method has nothing but that period.
func (m *Method) seen(cfg *Config, now int64) (rate, usual float64) {
	n := float64(m.inTime.Load())
	rate, usual = max(m.rate, n/float64(max(now-m.period, int64(cfg.Period)/4))), m.usual
	if usual == 0 && n > 0 {
		usual = float64(m.spent.Load()) / n
	}
	return rate, usual
}

// isSlow reports whether a handler says that the limit may be too high: it ended late, or took
// more than TimeShare of the time that its request had when it came, and more than Slower times
// the usual. A late one whose request had less than the usual time when it came says nothing: so
// a caller with deadlines that can't be met makes no handler slow.
func (m *Method) isSlow(cfg *Config, h *Handled, now int64) bool {
	took, had, usual := now-h.began, h.deadline-h.came, m.usually.Load()
	switch {
	case h.deadline == 0:
		return false
	case now >= h.deadline:
		return had > usual
	}
	return float64(took) > max(cfg.TimeShare*float64(had), cfg.Slower*float64(usual))
}

// slowed notes a handler that was slow. One that began before the last cut says nothing about
// the present limit, nor does one that began before the process was stopped for some time. The
// limit is cut when of the last handlers too many were slow, or late.
func (m *Method) slowed(cfg *Config, h *Handled, woke, now int64) {
	if h.began < max(m.cutAt.Load(), woke) {
		return
	}
	had := float64(max(1, h.deadline-h.came))
	took := float64(now-h.began) / had
	if now >= h.deadline {
		m.slow.late++
		took = max(1, took) // it would have taken longer, had it not heeded its deadline
	}
	m.slow.handlers++
	m.slow.took += took
	s := m.slow
	if s.ended = m.good.Load() + s.late; !m.isEnough(cfg, s) {
		return
	}
	m.good.Store(0)
	m.slow = slowness{}
	if seen := s.shares(); seen.exceed(cfg.Share, m.inevitable(now)) {
		m.cut(cfg, now, s, had, seen)
	} else {
		m.fruitless = 0
	}
}

// isEnough reports whether it can be judged by these handlers whether too many are slow. A few are
// enough if all were late and only a few may run, as polls are held up meanwhile.
func (m *Method) isEnough(cfg *Config, s slowness) bool {
	const least, turns = 4, 2
	return s.ended >= int64(cfg.Judged) || s.late == s.ended && s.ended >= max(least, turns*m.limit.Load())
}

// slowness is what is known of the slow handlers among the last.
type slowness struct {
	ended    int64   // all handlers
	handlers int64   // that were slow
	late     int64   // of those, that ended after their deadlines
	took     float64 // the sum of the times that they took, each for the time that its request had
}

func (s slowness) shares() shares {
	return shares{float64(s.handlers) / float64(s.ended), float64(s.late) / float64(s.ended)}
}

// shares of the handlers are slow, and late.
type shares struct{ slow, late float64 }

// exceed reports whether the shares are more than the one that is allowed, and clearly more than
// what is usual at any limit: twice that, as shares of few handlers vary.
func (s shares) exceed(allowed float64, usual shares) bool {
	return s.slow > allowed+2*usual.slow || s.late > allowed+2*usual.late
}

// inevitable returns the shares of which is known that no limit changes them.
func (m *Method) inevitable(now int64) shares {
	if now >= m.knownUntil {
		return shares{}
	}
	return m.known
}

// cut lowers the limit: to what can end within TimeShare of the time that requests have, at the
// method's rate (Little's law) and by the times that handlers took. It stays high enough for the
// rate that the method has had, at its usual time.
func (m *Method) cut(cfg *Config, now int64, s slowness, had float64, seen shares) {
	rate, usual := m.seen(cfg, now)
	limit := float64(min(m.limit.Load(), m.running.Load()+1))
	to := min(cfg.Cut, cfg.TimeShare*float64(s.handlers)/s.took) * limit
	if seen.late == 1 {
		to = cfg.DeepCut * limit
	}
	if rate > 0 {
		to = min(to, rate*cfg.TimeShare*had)
	}
	const most = 0.5
	to = max(float64(cfg.LeastLimit), math.Floor(to), math.Ceil(cfg.Spare*rate*usual))
	isLimited, mostLate := m.limit.Load() < cfg.FirstLimit, seen.late > most
	switch {
	case to < limit && m.fruitless < cfg.Fruitless:
		if mostLate && seen.late > m.lastLate-cfg.Share {
			m.fruitless++
		}
		m.lastLate = seen.late
		m.limit.Store(int64(to))
		m.threshold = int64(to)
		m.cutAt.Store(now)
		m.gained, m.bound = 0, false
	case !isLimited:
	case mostLate:
		m.limit.Store(cfg.FirstLimit)
		m.threshold = 0
		m.believe(cfg, now, seen)
	default:
		m.believe(cfg, now, seen)
	}
}

// believe notes shares of slow handlers that no limit changes: they were as large after several
// cuts. They wait for an event, as a poll does, or for something else that does not
// depend on how many of them there are.
func (m *Method) believe(cfg *Config, now int64, seen shares) {
	m.immunity = min(max(cfg.Immunity, 2*m.immunity), cfg.LongestImmunity) //nolint:mnd // twice as long each time
	m.known, m.knownUntil = seen, now+int64(m.immunity)
	m.fruitless = 0
}
