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
	good    atomic.Int64 // handlers in time that began after that

	// Guarded by the gate's mutex.
	queues    [classes]queue
	served    [classes]int64 // virtual time: how much slot time the method has got
	spacing   int64          // ns between two starts while others wait, an average
	last      int64          // start while others wait
	threshold int64          // the limit grows quickly below it; 0 for none
	late      int64          // handlers that began after the last cut, and ended late
	fruitless int            // cuts in a row after which handlers were late as before
	immune    int64          // the limit is not cut until then
	immunity  time.Duration  // how long that was
	gained    int64          // handlers in time since the limit grew
	bound     bool           // the limit has kept requests back since it grew
	period    int64          // began then
	rate      float64        // handlers in time a ns, a maximum that fades
	easy      int            // periods in a row of which the limit bound nothing
	long      float64        // ns that a handler takes, an average over minutes: with Config.Gradient only
	usual     float64        // ns that a handler takes while no request waits, an average
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
// decrease, Chiu and Jain 1989; slow start, Jacobson 1988). A handler that took more than
// half of the time that it had does not count: with a higher limit others would be late.
func (m *Method) grow(cfg *Config, began, now, deadline int64) {
	limit := m.limit.Load()
	if cfg.Gradient > 0 {
		return // the gradient raises it
	}
	m.bound = m.bound || 2*m.running.Load() > limit
	if !m.bound || deadline != 0 && float64(now-began) > cfg.TimeShare*float64(deadline-began) {
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
		m.threshold = 0
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
	const sooner = 10
	gain := cfg.UsualGain
	if mean < m.usual {
		gain = min(1, sooner*gain)
	}
	if m.usual == 0 {
		gain = 1
	}
	m.usual += gain * (mean - m.usual)
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

// cut lowers the limit for a handler that was late. One that began before the last cut says
// nothing about the present limit. The limit stays high enough for the rate that the method
// has had, so handlers that are always late for other reasons do not starve the others.
//
// Where handlers are late as before after several cuts, the limit is not what they wait for:
// they wait for an event, as a poll does. Then there is none for some time. A method of which
// no handler ends in time has none either.
func (m *Method) cut(cfg *Config, began, now, deadline int64) {
	rate, usual := m.seen(cfg, now)
	if began < m.cutAt.Load() || now < m.immune || rate == 0 {
		return
	}
	m.late++
	if m.cutAt.Load() != 0 && m.good.Load()+m.late <= m.running.Load() || m.isFruitless(cfg, now) {
		return
	}
	to := cfg.Cut * float64(min(m.limit.Load(), m.running.Load()+1))
	to = min(to, rate*cfg.TimeShare*float64(deadline-began))
	to = max(to, cfg.Spare*rate*usual)
	m.limit.Store(max(int64(cfg.LeastLimit), int64(to)))
	m.threshold = m.limit.Load()
	m.cutAt.Store(now)
	m.gained, m.bound = 0, false
}

// isFruitless counts cuts that have changed nothing, and lifts the limit after several. A cut
// has changed something if of the handlers that began after it more have ended in time than
// late. It is asked when as many of them have ended as run.
func (m *Method) isFruitless(cfg *Config, now int64) bool {
	good, late := m.good.Swap(0), m.late
	m.late = 0
	switch {
	case m.cutAt.Load() == 0: // it is the first
		return false
	case good > late:
		m.fruitless = 0
		return false
	}
	if m.fruitless++; m.fruitless < cfg.Fruitless {
		return false
	}
	m.fruitless, m.threshold = 0, 0
	m.limit.Store(cfg.FirstLimit)
	m.immunity = min(max(cfg.Immunity, 2*m.immunity), cfg.LongestImmunity) //nolint:mnd // twice as long each time
	m.immune = now + int64(m.immunity)
	return true
}
