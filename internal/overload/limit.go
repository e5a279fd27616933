package overload

import (
	"math"
	"sync/atomic"
	"time"
)

// Method is the state of one method in a [Gate]. [Gate.Method] makes one.
type Method struct {
	running   atomic.Int64
	limit     atomic.Int64 // limit of running handlers
	took      atomic.Int64 // ns, an estimate of the median time of handlers; of late ones at least what they took
	inTime    atomic.Int64 // handlers that have ended in time, in this period
	late      atomic.Int64 // handlers that have ended after their deadlines, in this period
	succeeded atomic.Int64 // handlers in time that returned no error, in this period
	spent     atomic.Int64 // ns that the handlers in succeeded took in total
	most      atomic.Int64 // most handlers that ran at the same time, in this period
	cutAt     atomic.Int64 // ns; when the limit was cut last
	good      atomic.Int64 // handlers in time that began after cutAt, and ended since slow handlers were last judged
	usually   atomic.Int64 // ns, copy of usual, read without the mutex
	bearable  atomic.Int64 // ns, Slower times what handlers took though the limit was cut; 0 if cuts help

	// Guarded by the gate's mutex.
	queues       [classes]queue
	served       [classes]int64 // virtual time: how much slot time the method has got
	spacing      int64          // ns between two starts while others wait, an average
	last         int64          // ns; last start while requests waited; 0 for none
	threshold    int64          // the limit grows quickly below it; 0 for none
	slow         slowness       // counts of the handlers that have ended since the last cut or the last judgement
	fruitless    int            // cuts in a row after which as many handlers were late as before
	cuts         int            // cuts in a row after which too many handlers were slow
	tried        trial          // the last of the cuts that cuts counts
	limited      bool           // the limit was cut, and not lifted since
	stuck        int            // periods in a row in which requests waited and no handler ended
	hungHandlers int64          // handlers that did not end in the stuck periods: they do not count towards the limit
	known        shares         // shares of slow and late handlers that no limit changes
	knownUntil   int64          // ns; until when known is valid
	immunity     time.Duration  // how long known was valid last
	gained       int64          // handlers in time since the limit grew
	bound        bool           // more than half of the limit was in use since it was last cut or slowly raised
	period       int64          // ns; when the period began
	rate         float64        // handlers in time per ns, a maximum that decays
	easyPeriods  int            // periods in a row that used at most half of the limit
	longAverage  float64        // ns that a handler takes, an average over minutes: with Config.Gradient only
	usual        float64        // ns that a handler takes while no request waits, an average
}

func (m *Method) admits() bool { return m.running.Load() < m.limit.Load() }

func (m *Method) waiting() (n int) {
	for i := range m.queues {
		n += m.queues[i].calls
	}
	return n
}

// done notes a handler that has ended in time, or had no deadline.
func (m *Method) done(h *Handled, now int64) {
	m.inTime.Add(1)
	if h.deadline != 0 && h.began >= m.cutAt.Load() {
		m.good.Add(1)
	}
	if !h.Failed {
		took := now - h.began
		m.succeeded.Add(1)
		m.spent.Add(took)
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

// grow raises the limit after a handler that has ended in time, if more than half of the limit
// was in use since it was last cut or slowly raised: at first by one for each handler, and above
// the threshold slowly (additive increase and multiplicative decrease, Chiu and Jain 1989; slow
// start, Jacobson 1988).
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
	inTime, late := m.inTime.Swap(0), m.late.Swap(0)
	m.rate = max(m.rate*cfg.RateFades, float64(inTime)/float64(took))
	m.period = now
	most := m.most.Swap(m.running.Load())
	if mean := float64(m.spent.Swap(0)) / float64(max(1, m.succeeded.Swap(0))); mean > 0 {
		if cfg.Gradient > 0 {
			m.adjustByGradient(cfg, mean, most)
		}
		if m.usual == 0 || m.waiting() == 0 && most < m.limit.Load() {
			m.learnUsual(cfg, mean)
		}
	}
	if m.known.late > cfg.MostLate && inTime >= int64(cfg.Judged) && inTime > late {
		m.knownUntil, m.immunity = 0, 0 // the handlers that were late belonged to an outage
	}
	m.release(cfg, most, inTime+late)
}

// release lifts a limit of which at most half was used for some periods, and raises one that is
// taken by handlers that do not end.
func (m *Method) release(cfg *Config, most, ended int64) {
	limit := m.limit.Load()
	if ended > 0 || m.waiting() == 0 {
		m.stuck = 0
	} else if m.stuck++; m.stuck >= cfg.LiftAfter {
		m.hungHandlers = m.running.Load()
		m.limit.Store(max(limit, m.hungHandlers+int64(cfg.LeastLimit)))
	}
	if m.waiting() > 0 || most > limit/2 {
		m.easyPeriods = 0
	} else if m.easyPeriods++; m.easyPeriods >= cfg.LiftAfter {
		m.lift(cfg)
	}
}

func (m *Method) lift(cfg *Config) {
	m.limit.Store(max(cfg.FirstLimit, m.limit.Load()))
	m.limited, m.threshold, m.cuts, m.fruitless, m.hungHandlers = false, 0, 0, 0, 0
	m.bearable.Store(0)
}

// adjustByGradient moves the limit by the ratio of the long average of the handlers' time to that of a
// period: down while handlers take longer than before, and else up by the square root of the
// limit, to find out whether more is possible. A limit of which less than half was used stays.
// After gradient2 of Netflix's concurrency-limits.
func (m *Method) adjustByGradient(cfg *Config, mean float64, most int64) {
	if m.longAverage == 0 {
		m.longAverage = mean
	}
	m.longAverage += cfg.LongGain * (mean - m.longAverage)
	if m.longAverage > cfg.TooLong*mean { // after an overload it falls quickly
		m.longAverage *= cfg.Falls
	}
	slope, round := min(1, max(cfg.Steepest, cfg.Gradient*m.longAverage/mean)), math.Ceil
	if slope < 1 {
		round = math.Floor
	}
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
	m.limit.Store(min(cfg.FirstLimit, max(int64(cfg.LeastLimit), int64(round(limit)))))
}

// learnUsual moves the usual time towards that of a period: quickly if it is shorter, slowly if
// it is longer, as handlers take longer for some time before they are late.
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

// seen returns how many handlers end in time, per ns, and how many ns they usually take. For a
// method in its first period it computes both from that period.
func (m *Method) seen(cfg *Config, now int64) (rate, usual float64) {
	n := float64(m.inTime.Load())
	rate, usual = max(m.rate, n/float64(max(now-m.period, int64(cfg.Period)/4))), m.usual
	if usual == 0 {
		usual = float64(m.spent.Load()) / float64(max(1, m.succeeded.Load()))
	}
	return rate, usual
}

// isSlow reports whether a handler shows that the limit may be too high: it ended late, or took
// more than TimeShare of the time that its request had when it came, more than Slower times the
// usual time, and more than Slower times what others took when a lower limit did not help. A
// late one whose request had less than the usual time when it came does not count: so a caller
// with deadlines that can't be met makes no handler slow.
func (m *Method) isSlow(cfg *Config, h *Handled, now int64) bool {
	took, had, usual := now-h.began, h.deadline-h.came, m.usually.Load()
	switch {
	case h.deadline == 0:
		return false
	case now >= h.deadline:
		return had > usual
	}
	return float64(took) > max(cfg.TimeShare*float64(had), cfg.Slower*float64(usual), float64(m.bearable.Load()))
}

// slowed records a slow handler. It ignores one that began before the last cut, which says
// nothing about the present limit, and one that began before the process was stopped for some
// time. The limit is cut when too many of the last handlers were slow, or late.
func (m *Method) slowed(cfg *Config, h *Handled, woke, now int64) {
	if h.began < max(m.cutAt.Load(), woke) {
		return
	}
	had := float64(max(1, h.deadline-h.came))
	took := float64(now-h.began) / had
	if now >= h.deadline {
		m.slow.late++
		took = max(1, took) // it would have taken longer if it had not stopped at its deadline
	}
	m.slow.handlers++
	m.slow.took += took
	m.slow.ns += now - h.began
	m.slow.had = had
	s := m.slow
	if s.ended = m.good.Load() + s.late; !m.isEnough(cfg, s) {
		return
	}
	m.good.Store(0)
	m.slow = slowness{}
	if s.shares().exceed(cfg.Share, m.inevitable(now)) {
		m.judge(cfg, now, s)
	} else {
		m.cuts, m.fruitless = 0, 0
	}
}

// isEnough reports whether these handlers are enough to judge whether too many are slow. A few
// are enough if all were late and only a few may run: two polls at a time that wait for 30 s
// need eight minutes until 32 have ended.
func (m *Method) isEnough(cfg *Config, s slowness) bool {
	return s.ended >= int64(cfg.Judged) || s.late == s.ended && s.ended >= max(cfg.JudgedLate, cfg.JudgedTurns*m.limit.Load())
}

// slowness counts the slow handlers among the last ones.
type slowness struct {
	ended    int64   // all handlers
	handlers int64   // slow handlers
	late     int64   // slow handlers that ended after their deadlines
	took     float64 // the sum of the times that they took, each as a share of the time that its request had
	ns       int64   // ns; the sum of those times
	had      float64 // ns that the request of the last slow handler had
}

func (s slowness) shares() shares {
	return shares{float64(s.handlers) / float64(s.ended), float64(s.late) / float64(s.ended)}
}

// mean returns the mean time of the slow handlers, as a share of the time that their requests
// had.
func (s slowness) mean() float64 { return s.took / float64(s.handlers) }

// shares are the shares of handlers that were slow, and late.
type shares struct{ slow, late float64 }

// exceed reports whether one of the shares is clearly more than is allowed. It allows twice the
// usual shares in addition, as shares of few handlers vary.
func (s shares) exceed(allowed float64, usual shares) bool {
	return s.slow > allowed+2*usual.slow || s.late > allowed+2*usual.late
}

// inevitable returns the shares that are known not to change with the limit.
func (m *Method) inevitable(now int64) shares {
	if now >= m.knownUntil {
		return shares{}
	}
	return m.known
}

// judge lowers the limit, as too many handlers are slow or late, unless that does not help.
func (m *Method) judge(cfg *Config, now int64, s slowness) {
	m.hungHandlers = min(m.hungHandlers, m.running.Load())
	limit := min(m.limit.Load(), m.running.Load()+1) - m.hungHandlers
	to := m.lower(cfg, now, s, float64(limit))
	if m.cutWouldNotHelp(cfg, now, s, to < limit) || to >= limit {
		return
	}
	m.tried = trial{cut: float64(to) / float64(limit), took: s.mean(), late: s.shares().late}
	m.cuts++
	m.limit.Store(m.hungHandlers + to)
	m.limited, m.threshold = true, m.hungHandlers+to
	m.cutAt.Store(now)
	m.gained, m.bound = 0, false
}

// cutWouldNotHelp reports whether a lower limit would not help, as the last cuts did not. If so, the
// method's slow handlers are accepted. isLower is false if there is no lower limit.
func (m *Method) cutWouldNotHelp(cfg *Config, now int64, s slowness, isLower bool) bool {
	seen := s.shares()
	m.fruitless++
	if m.cuts == 0 || seen.late < m.tried.late-cfg.Share {
		m.fruitless = 0
	}
	isLast := m.limited && !isLower
	switch {
	case seen.late > cfg.MostLate:
		if m.fruitless < cfg.Fruitless && (!isLast || m.cuts == 0) {
			return false
		}
		m.lift(cfg)
		m.acceptShares(cfg, now, seen)
	case seen.late > cfg.Share:
		if !isLast {
			return false
		}
		m.acceptShares(cfg, now, seen)
	case !isLast && m.makesQuicker(s.mean()):
		return false
	case seen.slow < cfg.MostSlow:
		m.acceptShares(cfg, now, seen)
	default:
		m.bearable.Store(int64(cfg.Slower * float64(s.ns) / float64(s.handlers)))
		m.threshold, m.cuts = 0, 0
	}
	return true
}

// makesQuicker reports whether handlers take a smaller share of their time than before the last
// cut, by at least half of what is expected. After the first cut it is too early to say, and
// the result is true.
func (m *Method) makesQuicker(took float64) bool {
	return m.cuts < 2 || took < m.tried.took*(1+m.tried.cut)/2
}

// trial is a cut of a limit, with the measurements before it.
type trial struct {
	cut  float64 // share of the limit that was left
	took float64 // the mean of the slow handlers' times, each as a share of the time that its request had
	late float64 // share of the handlers that were late
}

// lower returns a lower limit: what can end within TimeShare of the time that requests have, at
// the method's rate of the last minute (Little's law), and by the times that handlers took. It
// stays high enough for that rate at the usual time, unless most handlers are late: then both
// may be outdated.
func (m *Method) lower(cfg *Config, now int64, s slowness, limit float64) int64 {
	late := s.shares().late
	rate, usual := m.seen(cfg, now)
	to := min(cfg.Cut, cfg.TimeShare/s.mean()) * limit
	if late == 1 {
		to = cfg.DeepCut * limit
	}
	if rate > 0 {
		to = min(to, rate*cfg.TimeShare*s.had)
	}
	to = math.Floor(to)
	if late <= cfg.MostLate {
		to = max(to, math.Ceil(cfg.Spare*rate*usual))
	}
	return max(int64(cfg.LeastLimit), int64(to))
}

// acceptShares records shares of slow handlers that no limit changes: those handlers wait for an
// event, as a poll does, or for something else that does not depend on how many of them run.
func (m *Method) acceptShares(cfg *Config, now int64, seen shares) {
	m.immunity = min(max(cfg.Immunity, 2*m.immunity), cfg.LongestImmunity) //nolint:mnd // twice as long each time
	m.known, m.knownUntil = seen, now+int64(m.immunity)
	m.cuts, m.fruitless = 0, 0
}
