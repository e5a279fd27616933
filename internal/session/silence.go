package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/transport"
)

// Bounds of a peer's silence while calls are in flight. Docs: ADR 0023.
const (
	leastSuspectAfter = time.Second // shortest silence after which a peer is suspect
	suspectTrips      = 4           // a peer is suspect after a silence of this many round trips, if that is longer
	maxRepeats        = 16          // unanswered pings after the first; more would look like a flood to a peer that resumes
)

// DefaultSilence is how long a peer may be silent by default.
const DefaultSilence = 20 * time.Second

// ErrMoved is in the chain of the error of a call that was given up at a suspect session
// to be made at another instance, because [Config.Move] allowed it.
var ErrMoved = errors.New("silent")

// suspectAfter is how long a peer may be silent before it is suspect.
func suspectAfter(rtt time.Duration) int64 { return int64(max(leastSuspectAfter, suspectTrips*rtt)) }

// silenceDetector judges whether a peer is alive. It is pure: the monitor passes what it observes.
type silenceDetector struct {
	silence time.Duration // silence after which a suspect peer is given up

	lively   int64  // ns; silence counts from this time at the earliest
	asked    int64  // ns; when the unanswered ping was sent; 0 for none
	since    int64  // ns; earliest time at which the peer could have answered that ping
	pingEnd  uint64 // position of the ping's end in all that is written
	acked    uint64 // bytes acknowledged at the last look
	repeated int64  // ns; when the ping was last sent again
	repeats  int
	looked   int64 // ns; time of the last look
	suspect  bool
}

// observation is what the monitor observes of a peer.
type observation struct {
	now, heard int64 // ns; heard is when bytes last arrived
	rtt        time.Duration
	written    uint64 // bytes that the connection has taken
	sent       transport.Sent
	known      bool // sent is known
	behind     bool // the reader is still handling bytes that arrived earlier
}

// acked returns how many of the written bytes have arrived at the peer's host; all of them
// if that is not known.
func (v *observation) acked() uint64 {
	if !v.known {
		return v.written
	}
	return v.written - min(v.written, uint64(max(0, v.sent.Unacked)))
}

// verdict is the result of a look at a peer.
type verdict uint8

const (
	healthy verdict = iota
	unsure          // the peer should be pinged
	asking          // a ping is unanswered, but not for long
	suspect         // new calls should go elsewhere
	hung            // the peer's host takes bytes, but the process has not answered for too long
	gone            // bytes that are written do not arrive
)

// begin resets the silenceDetector at now: there was nothing to watch, or this process did not run.
func (l *silenceDetector) begin(now int64) {
	*l = silenceDetector{silence: l.silence, lively: now}
}

// slept records that this process did not run for a while, which does not count as silence.
// A suspect peer remains suspect, and gets at least leastSuspectAfter more: its pong may have
// arrived and be unread.
func (l *silenceDetector) slept(now int64) {
	if !l.suspect {
		l.begin(now)
		return
	}
	l.since = max(l.since+now-l.looked, now-int64(l.silence)+int64(leastSuspectAfter))
	l.looked = now
}

// certainlyHealthy reports whether look would return healthy whatever else is observed: no ping
// is unanswered, and none is due.
func (l *silenceDetector) certainlyHealthy(now, heard int64, rtt time.Duration) bool {
	return l.asked == 0 && now-max(heard, l.lively) <= suspectAfter(rtt)/2
}

// look returns the verdict. After unsure, the caller must send a ping and call pinged.
func (l *silenceDetector) look(v *observation) verdict {
	l.looked = v.now
	if l.asked != 0 && v.heard >= l.asked {
		l.begin(l.lively)
	}
	if l.certainlyHealthy(v.now, v.heard, v.rtt) {
		return healthy
	}
	if l.asked == 0 {
		return unsure
	}
	quiet, most := v.now-max(v.heard, l.lively), suspectAfter(v.rtt)
	if l.inTransit(v) {
		l.since = v.now
	}
	waited := v.now - l.since
	switch {
	case waited < int64(l.silence):
		l.suspect = l.suspect || quiet >= most && waited >= most/2
		if l.suspect {
			return suspect
		}
		return asking
	case !v.known, v.sent.Unacked > 0 && v.sent.Age >= l.silence:
		return gone
	}
	l.suspect = true
	return hung
}

// inTransit reports whether the ping is still on its way and bytes before it arrive, or the pong
// may be among bytes that the reader has not handled yet. A slow link is no silence.
func (l *silenceDetector) inTransit(v *observation) bool {
	before := l.acked
	l.acked = v.acked()
	return v.behind || before < l.pingEnd && l.acked > before
}

// pinged records that a ping was sent that ends at position end in all that is written.
func (l *silenceDetector) pinged(v *observation, end uint64) {
	l.asked, l.since, l.repeated, l.pingEnd, l.acked = v.now, v.now, v.now, end, v.acked()
}

// repeat reports whether the ping should be sent again, to detect a connection that has
// broken since the last one. It counts the ping as sent.
func (l *silenceDetector) repeat(now int64) bool {
	if l.repeats >= maxRepeats || now-l.repeated < int64(l.silence)/4 {
		return false
	}
	l.repeats++
	l.repeated = now
	return true
}

// due returns when to look again at the latest.
func (l *silenceDetector) due(heard int64, rtt time.Duration) int64 {
	most := suspectAfter(rtt)
	quiet := max(heard, l.lively)
	switch {
	case l.suspect:
		return 0
	case l.asked == 0:
		return quiet + most/2
	}
	return max(quiet+most, l.since+most/2)
}

// checkPeer judges the peer and acts on the verdict. late means that this process did not
// run, so that the peer's silence means nothing.
func (s *Session) checkPeer(now int64, late bool) {
	if late {
		s.detector.slept(now)
		return
	}
	if s.detector.certainlyHealthy(now, s.received.Load(), s.RTT()) { // so the mutex, which callers need, is not taken
		s.measure(now)
		return
	}
	v := s.observePeer(now)
	before := s.detector.suspect
	switch s.detector.look(&v) {
	case healthy:
		s.measure(now)
	case unsure:
		s.lastRTT = now
		s.detector.pinged(&v, s.ping(now))
	case asking:
	case suspect:
		s.handleSuspect(now, before, false)
	case hung:
		s.handleSuspect(now, before, true)
	case gone:
		s.fail(fmt.Errorf("%w: nothing that was written has been acknowledged for %v: see Silence", machine.ErrSilent, s.detector.silence))
	}
	s.reportSuspicion()
}

// measure sends a ping every rttEvery, which measures the round trip.
func (s *Session) measure(now int64) {
	if now-s.lastRTT > int64(rttEvery) {
		s.lastRTT = now
		s.ping(now)
	}
}

// observePeer observes the peer. It asks the kernel only when the peer is silent.
func (s *Session) observePeer(now int64) (v observation) {
	v.now, v.heard, v.rtt = now, s.received.Load(), s.RTT()
	s.mu.Lock()
	v.written = s.written
	frames := s.m.Frames()
	s.mu.Unlock()
	v.behind = frames != s.seen || s.turn.Load()&1 == 1
	s.seen = frames
	if now-v.heard > int64(leastSuspectAfter)/2 {
		v.sent, v.known = s.conn.Sent()
	}
	return v
}

// handleSuspect handles a suspect peer: it gives up calls that can be made elsewhere. If the peer
// hangs, calls without a deadline of their own end too, and so does the session once no call
// is left to wait for.
func (s *Session) handleSuspect(now int64, before, hangs bool) {
	d := suspectTimes{now: now, from: now, silence: int64(s.detector.silence), hangs: hangs, waited: now - s.detector.since}
	if !before {
		d.from = s.detector.since
	}
	s.mu.Lock()
	over, waits := s.endSuspectCallsLocked(&d)
	lead := s.leadLocked(0)
	s.mu.Unlock()
	for _, p := range over {
		p.Done <- struct{}{}
	}
	if lead {
		s.write()
	}
	switch {
	case hangs && !waits:
		s.fail(fmt.Errorf("%w: no ping has been answered for %v, though its host takes what is written (WithSilence)", machine.ErrSilent, time.Duration(d.waited)))
	case s.detector.repeat(now):
		s.ping(now)
	}
}

// suspectTimes are the times by which calls at a suspect peer are judged.
type suspectTimes struct {
	now, from int64 // ns; a call that is judged for the first time has waited since from
	silence   int64 // ns; limit of the wait of a call without a deadline of its own
	waited    int64 // ns since the peer could have answered the ping
	hangs     bool
}

// endSuspectCallsLocked ends calls at a suspect peer: those that can be made elsewhere, and if it hangs
// those that have waited for too long and have no deadline of their own. waits reports whether
// other calls are left to wait for.
func (s *Session) endSuspectCallsLocked(d *suspectTimes) (over []*machine.Call, waits bool) {
	over, waits = s.m.GiveUp(s.offered, func(p *machine.Call, unsent bool) *tandem.Error {
		if s.reading != nil && p == &s.reading.Call && p.State == machine.CallOpen { // its caller must first stop reading
			s.relieveLocked()
			return nil
		}
		why := s.errorAtSuspect(p, d)
		if why == nil {
			return nil
		}
		e := tandem.Errorf(tandem.Unavailable, "%w: %s has not answered a ping for %v", why, s.remote(), time.Duration(d.waited).Round(time.Millisecond))
		e.NotExecuted = unsent
		return e
	})
	s.endGoneLocked()
	return over, waits || s.m.HasRequestWithin(d.now)
}

// errorAtSuspect returns why a call at a suspect peer is over; nil if it is not.
func (s *Session) errorAtSuspect(p *machine.Call, d *suspectTimes) error {
	if p.SuspectSince == 0 {
		p.SuspectSince = d.from
	}
	if f := s.env.cfg.Move; p.Movable != nil && f != nil && f(s, p.Movable) {
		return ErrMoved
	}
	if own := p.Expires != 0 && !p.UsualDeadline; d.hangs && !own && d.now-p.SuspectSince >= d.silence {
		return machine.ErrSilent
	}
	return nil
}

// OnSuspicion registers f to be called whenever the session becomes suspect, as its peer is silent
// while calls are in flight, and whenever it is no longer suspect. If it is suspect already,
// f is called soon. Calls of f do not overlap, so the last one has the current state. f must
// neither block nor use the session.
func (s *Session) OnSuspicion(f func(suspect bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onSuspicion, s.reported = f, false // the next look calls f: a suspect peer is looked at until it answers
}

// reportSuspicion calls OnSuspicion's function after a change.
func (s *Session) reportSuspicion() {
	suspect := s.detector.suspect
	s.mu.Lock()
	changed := s.reported != suspect
	s.reported = suspect
	f := s.onSuspicion
	s.mu.Unlock()
	if changed && f != nil {
		f(suspect)
	}
}
