package session

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"
)

// monitor watches the sessions on which something is outstanding: handlers
// that hold up a reader, deadlines, silent peers. It is a timer that fires when the
// next of its sessions has to be looked at, and is not set when there is nothing to
// watch.
type monitor struct {
	env *Env

	mu      sync.Mutex
	list    []*Session
	timer   *time.Timer // nil before the first look
	set     bool        // the timer is set
	due     int64       // ns; when the timer fires
	looking bool
	asked   bool // another look was requested during this one
	stopped bool

	// Used by the goroutine that looks.
	batch []*Session
	last  int64         // ns; time of the last look
	pause time.Duration // planned time from the last look to the next
}

// watch puts the session on the monitor's list. The common case is one load.
func (s *Session) watch() {
	if !s.watched.Load() {
		s.env.monitor.add(s)
	}
}

func (mo *monitor) add(s *Session) {
	mo.mu.Lock()
	defer mo.mu.Unlock()
	if mo.stopped || s.watched.Load() {
		return
	}
	s.watched.Store(true)
	s.quietSince, s.dropWatch = 0, false
	s.detector.begin(mo.env.now())
	mo.list = append(mo.list, s)
	switch {
	case !mo.set && !mo.looking:
		mo.last, mo.pause = mo.env.now(), mo.interval(1)
		mo.setLocked(mo.pause)
	case mo.env.cfg.Resolve == nil: // a client's monitor; a server's next look is near anyway
		mo.wakeLocked()
	}
}

// wake starts a look now, because a session can't wait until the timer fires.
func (mo *monitor) wake() {
	mo.mu.Lock()
	defer mo.mu.Unlock()
	mo.wakeLocked()
}

func (mo *monitor) wakeLocked() {
	switch {
	case mo.looking:
		mo.asked = true
	case mo.set:
		mo.setLocked(0)
	}
}

func (mo *monitor) setLocked(pause time.Duration) {
	mo.set, mo.due = true, mo.env.now()+int64(pause)
	if mo.timer != nil {
		mo.timer.Reset(pause)
		return
	}
	mo.timer = time.AfterFunc(pause, func() { mo.env.run(mo.ring) })
}

// stop ends the monitor: no look begins after it.
func (mo *monitor) stop() {
	mo.mu.Lock()
	defer mo.mu.Unlock()
	mo.stopped, mo.set = true, false
	if mo.timer != nil {
		mo.timer.Stop()
	}
}

// ring looks at the sessions, and sets the timer for the next time.
func (mo *monitor) ring() {
	for mo.begin() {
		now := mo.env.now()
		late := slept(now, mo.last+int64(mo.pause))
		punctual := now-mo.last < 3*int64(mo.interval(len(mo.batch)))
		mo.last = now
		next, idle := now+int64(leastSuspectAfter)/2, 0
		for _, s := range mo.batch {
			next = min(next, s.tick(now, late, punctual))
			if s.dropWatch {
				idle++
			}
		}
		mo.pause = max(mo.interval(len(mo.batch)), time.Duration(next-now))
		clear(mo.batch)
		if !mo.end(idle) {
			return
		}
	}
}

// begin takes the sessions to look at; false if the monitor is stopped, or no look is
// due: the timer fires twice if it is reset when it has just fired.
func (mo *monitor) begin() bool {
	mo.mu.Lock()
	defer mo.mu.Unlock()
	if !mo.set || mo.env.now() < mo.due {
		return false
	}
	mo.set, mo.looking, mo.asked = false, true, false
	mo.batch = append(mo.batch[:0], mo.list...)
	return true
}

// end ends a look, and reports whether another look must follow at once. idle is the number
// of sessions that the look found idle.
func (mo *monitor) end(idle int) (again bool) {
	mo.mu.Lock()
	defer mo.mu.Unlock()
	mo.looking = false
	if idle > 0 {
		mo.pruneLocked()
	}
	switch {
	case mo.stopped:
	case len(mo.list) == 0:
		mo.batch, mo.list = nil, nil
	case mo.asked:
		mo.set, mo.due = true, 0
		return true
	default:
		mo.setLocked(mo.pause)
	}
	return false
}

// slept reports whether a tick is so late that this process did not run: then the
// silence of peers means nothing.
func slept(now, due int64) bool { return now-due > int64(lateTick) }

// interval returns the least time between ticks: longer for many sessions, so that
// the monitor uses little of one core, and longer where the peers can't call this
// side, since then there are only deadlines and silence to watch.
func (mo *monitor) interval(sessions int) time.Duration {
	every := tickEvery
	if mo.env.cfg.Resolve == nil {
		every = slowTick
	}
	return every + time.Duration(sessions)*tickPerSession
}

// pruneLocked takes idle sessions off the list.
func (mo *monitor) pruneLocked() {
	mo.list = slices.DeleteFunc(mo.list, func(s *Session) bool {
		if !s.dropWatch {
			return false
		}
		s.watched.Store(false)
		if s.busy() { // a call began meanwhile and saw watched set
			s.watched.Store(true)
			s.dropWatch, s.quietSince = false, 0
			return false
		}
		return true
	})
}

func (s *Session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.busyLocked() || s.parked != nil) && !s.m.Closed()
}

// busyLocked reports whether there is anything to watch.
func (s *Session) busyLocked() bool {
	return s.m.IsBusy()
}

// tick checks one session. It returns when its next tick is due at the latest, and
// sets s.dropWatch if the session need not be watched any longer.
func (s *Session) tick(now int64, late, punctual bool) (next int64) {
	s.mu.Lock()
	if s.m.Closed() {
		s.mu.Unlock()
		s.dropWatch = true
		return now + int64(calmTick)
	}
	if late { // no bytes were read while this process did not run
		s.m.Awoke()
	}
	s.dropStaleLocked(now)
	over := s.m.Expire(now)
	busy := s.busyLocked() || s.detector.suspect // a suspect peer is watched until it answers
	lead := s.leadLocked(0)                      // responses do not wait for the end of a long batch
	resume := s.checkReadingCallerLocked(now)
	s.mu.Unlock()
	if s.checkTurn(punctual) {
		s.received.Store(now) // the reader has bytes to handle, and makes progress
	}
	if resume != nil {
		resume.handToGoroutine()
	}
	for _, p := range over {
		p.Done <- struct{}{}
	}
	if lead {
		s.write()
	}
	switch {
	case busy:
		s.quietSince = 0
		s.checkPeer(now, late)
	case s.quietSince == 0:
		s.quietSince = now
		s.detector.begin(now)
	}
	s.dropWatch = !busy && now-s.quietSince >= int64(quietTime)
	return s.schedule(now, busy)
}

// schedule returns when the next tick is due at the latest. A client's ticks are
// rare: with a thousand sessions in a process, ticks would cost more than calls.
// While calls are in flight, a tick is needed for silence, deadlines and callers
// that read; after them, one within calmTick to find a turn that stays parked.
func (s *Session) schedule(now int64, busy bool) int64 {
	if s.env.cfg.Resolve != nil {
		return now
	}
	silent := max(now+int64(slowTick), s.detector.due(s.received.Load(), s.RTT()))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextTick = now + int64(calmTick)
	if busy {
		s.nextTick = silent
	}
	if s.cancelableRead {
		s.nextTick, s.cancelableRead = min(s.nextTick, now+int64(slowTick)), false
	}
	if !busy {
		return s.nextTick
	}
	if s.m.NextDeadline() != 0 {
		s.nextTick = min(s.nextTick, s.m.NextDeadline())
	}
	if s.reading != nil {
		s.nextTick = min(s.nextTick, s.reading.relieveAt(now))
	}
	return s.nextTick
}

// checkTurn takes the turn from a reader that has executed the same handler for two
// ticks. Late ticks count less: they show that CPU is scarce, not that the handler
// takes long. It reports whether the reader has executed a handler since the last
// tick.
func (s *Session) checkTurn(punctual bool) (moved bool) {
	turn := s.turn.Load()
	if turn&1 == 0 || turn != s.seenTurn {
		moved = turn != s.seenTurn
		s.seenTurn, s.held = turn, 0
		return moved
	}
	s.held++
	if punctual {
		s.held += 4
	}
	if s.held >= 5 {
		s.steal(turn)
	}
	return false
}

// Ping sends a ping and does not wait for the pong: [Session.Heard] shows whether it
// has arrived. It is for idle sessions; the monitor pings those with calls in flight.
func (s *Session) Ping() { s.ping(s.now()) }

// Heard returns when bytes last arrived from the peer; at first, when it connected.
func (s *Session) Heard() time.Time { return s.at(s.received.Load()) }

// ping sends a ping with the time, which the pong carries back. It returns the position
// of the ping's end in all that is written.
func (s *Session) ping(now int64) (end uint64) {
	var p [8]byte
	binary.LittleEndian.PutUint64(p[:], uint64(now)) //nolint:gosec // only an echo
	s.mu.Lock()
	end = s.m.Ping(p)
	s.mu.Unlock()
	s.flush()
	return end
}

func (s *Session) onPong(sent uint64, now int64) {
	if took := now - int64(sent); took >= 0 && took < int64(time.Minute) { //nolint:gosec // checked: anything may come back
		s.rtt.Store(max(1, took))
	}
}
