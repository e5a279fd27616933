package session

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tandem-rpc/tandem/wire"
)

// monitor watches the sessions on which something is outstanding: handlers
// that hold up a reader, deadlines, silent peers. It has one goroutine, which
// ends when there is nothing left to watch, and otherwise sleeps until the next
// of its sessions has to be looked at.
type monitor struct {
	env  *Env
	wake chan struct{} // a session has to be looked at before that

	mu      sync.Mutex
	list    []*Session
	running bool
	stopped bool
	quit    chan struct{}
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
	s.quietSince, s.pinged = 0, 0
	mo.list = append(mo.list, s)
	if mo.running {
		if mo.env.cfg.Resolve == nil { // else the next tick is near
			signal(mo.wake)
		}
		return
	}
	mo.running, mo.quit = true, make(chan struct{})
	mo.env.spawn(mo.run)
}

func (mo *monitor) stop() {
	mo.mu.Lock()
	defer mo.mu.Unlock()
	mo.stopped = true
	if mo.running {
		close(mo.quit)
		mo.running = false
	}
}

func (mo *monitor) run() {
	pause := mo.interval(1)
	timer := time.NewTimer(pause)
	defer timer.Stop()
	var batch []*Session
	for last := mo.env.now(); ; {
		select {
		case <-timer.C:
		case <-mo.wake:
		case <-mo.quit:
			return
		}
		mo.mu.Lock()
		batch = append(batch[:0], mo.list...)
		mo.mu.Unlock()
		now := mo.env.now()
		late := slept(now, last+int64(pause))
		punctual := now-last < 3*int64(mo.interval(len(batch)))
		last = now
		next, gone := now+int64(pingAfter), 0
		for _, s := range batch {
			at, watch := s.tick(now, late, punctual)
			next = min(next, at)
			if !watch {
				gone++
			}
		}
		clear(batch)
		if gone > 0 && mo.prune() {
			return
		}
		pause = max(mo.interval(len(batch)), time.Duration(next-now))
		timer.Reset(pause)
	}
}

// slept reports whether a tick comes so late that this process did not run:
// what it has not heard meanwhile says nothing.
func slept(now, due int64) bool { return now-due > int64(lateTick) }

// interval is the least time between ticks: longer for many sessions, so that
// the monitor never costs more than a little of a core, and longer where the
// peers can't call us, since then there are only deadlines and silence to watch.
func (mo *monitor) interval(sessions int) time.Duration {
	every := tickEvery
	if mo.env.cfg.Resolve == nil {
		every = slowTick
	}
	return every + time.Duration(sessions)*tickPerSession
}

// prune takes idle sessions off the list and reports whether it is empty; the
// goroutine then ends.
func (mo *monitor) prune() (empty bool) {
	mo.mu.Lock()
	defer mo.mu.Unlock()
	mo.list = slices.DeleteFunc(mo.list, func(s *Session) bool {
		if !s.leaves {
			return false
		}
		s.watched.Store(false)
		if s.busy() { // a call began meanwhile and saw us watching
			s.watched.Store(true)
			s.quietSince = 0
			return false
		}
		return true
	})
	if len(mo.list) > 0 || mo.stopped {
		return mo.stopped
	}
	mo.running = false
	return true
}

func (s *Session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (s.busyLocked() || s.parked != nil) && s.Err() == nil
}

// busyLocked reports whether there is anything to watch.
func (s *Session) busyLocked() bool {
	return s.m.calls.open+len(s.m.queue)+s.m.running+len(s.m.incoming.list) > 0
}

// tick looks after one session. It returns when the next is due at the latest,
// and whether the session is to be watched any longer.
func (s *Session) tick(now int64, late, punctual bool) (next int64, watch bool) {
	if s.Err() != nil {
		s.leaves = true
		return now + int64(calmTick), false
	}
	if s.checkTurn(punctual) {
		s.received.Store(now) // it has something to read, and gets on with it
	}
	s.mu.Lock()
	over := s.m.expire(now)
	busy := s.busyLocked()
	lead := s.leadLocked(0) // answers do not wait for the end of a long batch
	resume := s.overseeLocked(now)
	s.mu.Unlock()
	if resume != nil {
		resume.goOn()
	}
	for _, p := range over {
		p.done <- struct{}{}
	}
	if lead {
		s.write()
	}
	switch {
	case busy:
		s.quietSince = 0
		s.checkPeer(now, late)
	case s.quietSince == 0:
		s.quietSince, s.pinged = now, 0
	}
	s.leaves = !busy && now-s.quietSince >= int64(quietTime)
	return s.schedule(now, busy), !s.leaves
}

// schedule says when the next tick is due at the latest. A client's may be long
// in coming: a process has a thousand, and their ticks would cost more than
// their calls. While calls are outstanding the peer's silence is all there is to
// see; when they are over, that nobody reads any more is to be seen before long.
func (s *Session) schedule(now int64, busy bool) int64 {
	if s.env.cfg.Resolve != nil {
		return now
	}
	silent := s.received.Load() + int64(pingAfter)
	if s.pinged != 0 {
		silent = s.pinged + int64(deadAfter)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextTick = now + int64(calmTick)
	if busy {
		s.nextTick = silent
	}
	if s.hasty {
		s.nextTick, s.hasty = min(s.nextTick, now+int64(slowTick)), false
	}
	if !busy {
		return s.nextTick
	}
	if s.m.earliest != 0 {
		s.nextTick = min(s.nextTick, s.m.earliest)
	}
	if s.reading != nil {
		s.nextTick = min(s.nextTick, s.reading.relieveAt(now))
	}
	return s.nextTick
}

// checkTurn relieves a reader that has executed the same handler for two ticks.
// Ticks that come late themselves count little: then it is the processor that
// is short, and a handler that did not finish says nothing. It reports whether
// the reader has executed something since the last tick.
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

// checkPeer finds a peer that is dead, stopped or unreachable. Any byte is a
// sign of life. A verdict right after we slept ourselves is void.
func (s *Session) checkPeer(now int64, late bool) {
	received := s.received.Load()
	if late {
		s.received.Store(now)
		s.pinged = 0
		return
	}
	if s.pinged != 0 && received >= s.pinged {
		s.pinged = 0
	}
	if s.pinged != 0 && s.takesBacklog() {
		s.pinged = now // it can't have the ping yet
	}
	if s.pinged != 0 && s.readsBacklog() {
		s.pinged = now // its answer may wait behind what it said before
	}
	switch {
	case s.pinged != 0 && now-s.pinged > int64(deadAfter):
		s.fail(fmt.Errorf("%s is silent: no byte within %v of a ping", s.remote(), deadAfter))
	case s.pinged == 0 && now-received > int64(pingAfter):
		s.pinged, s.lastRTT = now, now
		s.readsBacklog() // from now on
		s.ping(now)
	case now-s.lastRTT > int64(rttEvery):
		s.lastRTT = now
		s.ping(now)
	}
}

// takesBacklog reports whether the ping still waits behind what the peer,
// slowly, takes.
func (s *Session) takesBacklog() bool {
	s.mu.Lock()
	written, end := s.written, s.pingEnd
	s.mu.Unlock()
	moved := written != s.taken
	s.taken = written
	return moved && written < end
}

// readsBacklog reports whether we are at frames that have come before: on a busy
// machine a buffer full of them can take longer than a peer may be silent.
func (s *Session) readsBacklog() bool {
	s.mu.Lock()
	frames := s.m.frames
	s.mu.Unlock()
	moved := frames != s.seen
	s.seen = frames
	return moved || s.turn.Load()&1 == 1
}

// Ping asks the peer for a sign of life, without waiting for it: [Session.Heard]
// tells of it. It is for sessions on which nothing is outstanding; of others the
// monitor takes care.
func (s *Session) Ping() { s.ping(s.env.now()) }

// Heard returns when bytes last came from the peer; at first, when it connected.
func (s *Session) Heard() time.Time { return s.env.at(s.received.Load()) }

// ping sends the time; the pong brings it back.
func (s *Session) ping(now int64) {
	var p [8]byte
	binary.LittleEndian.PutUint64(p[:], uint64(now)) //nolint:gosec // only an echo
	s.mu.Lock()
	b := s.m.buf()
	b.b = wire.AppendPing(b.b, wire.TypePing, p)
	s.pingEnd = s.m.taken + uint64(len(b.b))
	s.mu.Unlock()
	s.flush()
}

func pingNumber(p [8]byte) uint64 { return binary.LittleEndian.Uint64(p[:]) }

func (s *Session) onPong(sent uint64, now int64) {
	if took := now - int64(sent); took >= 0 && took < int64(time.Minute) { //nolint:gosec // checked: anything may come back
		s.rtt.Store(max(1, took))
	}
}
