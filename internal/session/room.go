package session

import (
	"runtime"
	"time"

	"github.com/tandem-rpc/tandem"
)

// Calls that run in goroutines of their own are not slowed down by the writer
// as the reader's are. Two bounds keep their answers from filling the memory
// when the peer does not read.

// maxStarting is how many of those goroutines may wait for a processor. A reader
// that is faster than the processors would otherwise let thousands of calls in
// before the first answer tells whether the peer takes any.
const maxStarting = 64

// awaitStart lets the goroutines that wait for a processor have one.
func (s *Session) awaitStart() {
	for s.starting.Load() >= maxStarting {
		runtime.Gosched() // they can run, so this ends
	}
}

// maxEncoding is how many of those calls may encode an answer at a time, of
// which nobody knows how large it will be.
const maxEncoding = 64

// encodeApart encodes the answer of a call in a goroutine of its own, as soon as
// the answers that are queued or about to be leave room for it.
func (s *Session) encodeApart(in *Inbound, v any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.awaitRoomLocked(in); err != nil {
		return err
	}
	s.encoding++
	s.signalRoomLocked() // it may be enough for one more
	s.mu.Unlock()
	defer func() { // also when a method of the message panics
		s.mu.Lock()
		s.encoding--
		s.countLocked(in)
	}()
	return in.encode(v)
}

func (s *Session) hasRoomLocked() bool {
	return s.encoding < maxEncoding && s.encoded+s.m.queuedBytes() <= writeHard
}

func (s *Session) awaitRoomLocked(in *Inbound) error {
	if s.hasRoomLocked() {
		return nil
	}
	if s.room == nil {
		s.room = make(chan struct{}, 1)
	}
	timer := time.NewTimer(s.env.cfg.Stall)
	defer timer.Stop()
	for !s.hasRoomLocked() {
		s.mu.Unlock()
		var err error
		select {
		case <-s.room:
		case <-in.Done():
			err = in.Err()
		case <-timer.C:
			err = &tandem.Error{
				Code:    tandem.ResourceExhausted,
				Message: "the caller reads too slowly: the result of " + in.call.Method + " was dropped",
			}
		}
		s.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

// countLocked notes how large the answer is that will be queued.
func (s *Session) countLocked(in *Inbound) {
	size := 0
	if in.reply != nil {
		size = len(in.reply.B)
	}
	s.encoded += size - in.counted
	in.counted = size
	s.signalRoomLocked()
}

// uncountLocked forgets an answer that is queued, or won't be.
func (s *Session) uncountLocked(in *Inbound) {
	s.encoded -= in.counted
	in.counted = 0
	s.signalRoomLocked()
}

// signalRoomLocked lets one of those who wait for room look again.
func (s *Session) signalRoomLocked() {
	if s.room != nil && s.hasRoomLocked() {
		signal(s.room)
	}
}
