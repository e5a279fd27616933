package session

import (
	"runtime"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/machine"
)

// The writer slows down calls that run in the reader, but not those that run in
// goroutines of their own. Two bounds keep the responses of the latter from filling
// the memory when the peer does not read.

// maxStarting is how many of those goroutines may wait for a processor. A reader
// that is faster than the processors would otherwise start thousands of calls
// before the first response shows whether the peer reads.
const maxStarting = 64

// awaitStart yields until fewer than maxStarting goroutines wait for a processor.
func (s *Session) awaitStart() {
	for s.starting.Load() >= maxStarting {
		runtime.Gosched() // they can run, so this ends
	}
}

// maxEncoding is how many of those calls may encode a response at a time: its size is
// not known before.
const maxEncoding = 64

// encodeApart encodes the reply of a call that has a goroutine of its own, as soon as
// the responses that are queued or about to be leave room for it.
func (s *Session) encodeApart(in *Inbound, v any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.awaitRoomLocked(in); err != nil {
		return err
	}
	s.encoding++
	s.signalRoomLocked() // there may be room for one more
	s.mu.Unlock()
	defer func() { // also when a method of the message panics
		s.mu.Lock()
		s.encoding--
		s.countLocked(in)
	}()
	return in.encode(v)
}

func (s *Session) hasRoomLocked() bool {
	return s.encoding < maxEncoding && s.encoded+s.m.QueuedBytes() <= machine.WriteHard
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

// countLocked counts the size of the call's response, which is not queued yet.
func (s *Session) countLocked(in *Inbound) {
	size := 0
	if in.Reply != nil {
		size = len(in.Reply.B)
	}
	s.encoded += size - in.counted
	in.counted = size
	s.signalRoomLocked()
}

// uncountLocked removes a response that is queued, or won't be, from the count.
func (s *Session) uncountLocked(in *Inbound) {
	s.encoded -= in.counted
	in.counted = 0
	s.signalRoomLocked()
}

// signalRoomLocked wakes one goroutine that waits for room, if there is room.
func (s *Session) signalRoomLocked() {
	if s.room != nil && s.hasRoomLocked() {
		machine.Signal(s.room)
	}
}
