package session

import (
	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/budget"
	"github.com/tandem-rpc/tandem/internal/machine"
	"github.com/tandem-rpc/tandem/wire"
)

// receiveLocked has the machine handle a frame, and does what must be done at once because of it. in
// is the call of the event, if it has a Request.
func (rd *reader) receiveLocked(h wire.Header, payload []byte) (ev machine.Event, in *Inbound, err error) {
	s := rd.s
	if h.Type == wire.TypeRequest {
		return rd.receiveRequestLocked(h, payload)
	}
	ev, err = s.m.Receive(h, payload, rd.now, nil)
	switch ev.Kind {
	case machine.Run:
		if in = s.inbounds[ev.Request.ID.Index()]; in.OneWay { // the peer may use the slot again
			s.forgetLocked(in)
			s.addOneWayLocked(in)
		}
	case machine.Canceled:
		in = s.inbounds[ev.Request.ID.Index()]
		in.cancel(canceled)
		in.leaveGateLocked()
	case machine.Dropped:
		s.droppedLocked(s.inbounds[ev.Request.ID.Index()])
	case machine.Away:
		s.notifyAwayLocked()
	default:
	}
	s.endGoneLocked()
	return ev, in, err
}

// receiveRequestLocked is receiveLocked for the first frame of a call of the peer.
func (rd *reader) receiveRequestLocked(h wire.Header, payload []byte) (machine.Event, *Inbound, error) {
	s := rd.s
	in := newInbound()
	c := machine.Incoming{Request: &in.Request}
	ev, err := s.m.Receive(h, payload, rd.now, &c)
	s.sawTimeoutLocked(in)
	switch {
	case err != nil:
		return ev, nil, err
	case ev.Request == nil: // it is refused, and the machine does not keep it
		in.recycle()
		return ev, nil, nil
	}
	s.beginLocked(in, &c)
	if ev.Kind == machine.Arrives {
		s.reserveRequestLocked(in)
	}
	return ev, in, nil
}

// beginLocked fills in what the handler needs of a call that has just come.
func (s *Session) beginLocked(in *Inbound, c *machine.Incoming) {
	in.s, in.method = s, s.methodOfLocked(c.Number)
	if c.Refusal != nil {
		in.method = &method{name: in.Name, target: in.method.target.refusing(c.Refusal)}
	}
	call, known := &in.call, &s.env.cfg.Settings
	call.Method, call.Attempt, call.Kind, call.Metadata, call.Body, call.Peer = in.Name, int(c.Attempt), c.Kind, c.Metadata, in, s.peer
	if in.Expires != 0 {
		call.Deadline = s.at(in.Expires)
	}
	if in.Codec != machine.NoCodec {
		call.Codec = known.Codecs[in.Codec]
	}
	if in.Compressor > 0 {
		call.Compressor = known.Compressors[in.Compressor-1]
	}
	if c.Kind == tandem.Streaming && c.Refusal == nil {
		in.stream = s.newInboundStream(in)
	}
	if in.ID == 0 || in.OneWay && !in.IsArriving() { // no frame will name the call
		s.addOneWayLocked(in)
		return
	}
	i := int(in.ID.Index())
	for i >= len(s.inbounds) {
		s.inbounds = machine.Extend(s.inbounds, s.firstInbound[:], nil)
	}
	s.inbounds[i] = in
}

// forgetLocked removes a call from the table of those that a frame may name, or from the list of
// one-way calls.
func (s *Session) forgetLocked(in *Inbound) {
	if in.OneWay {
		s.removeOneWayLocked(in)
	}
	if i := int(in.ID.Index()); i < len(s.inbounds) && s.inbounds[i] == in {
		s.inbounds[i] = nil
	}
}

// reserveRequestLocked reserves the memory of a large request, of which the first block has come. Until
// there is room for all of it, the rest may not arrive.
func (s *Session) reserveRequestLocked(in *Inbound) {
	if s.account == nil {
		return
	}
	have, h, id := int64(in.Have()), s.account.Hold(), in.ID
	in.hold = h
	if !h.Begin(have) {
		s.dropLocked(in, h.Exhausted(have))
		return
	}
	granted := h.Ask(in.Whole(), func(granted bool) {
		s.env.Spawn(func() { s.resumeRequest(id, h, granted) })
	})
	if granted {
		s.m.Grant(&in.Request)
	}
}

// resumeRequest goes on with a request for which there is room now, or drops it.
func (s *Session) resumeRequest(id wire.Stream, h *budget.Hold, granted bool) {
	s.mu.Lock()
	var in *Inbound
	if i := int(id.Index()); i < len(s.inbounds) {
		in = s.inbounds[i]
	}
	switch {
	case in == nil || in.hold != h || !in.IsArriving() || s.m.Closed(): // the call is over
	case granted:
		s.m.Grant(&in.Request)
	default:
		s.dropLocked(in, h.Exhausted(in.Whole()))
	}
	s.mu.Unlock()
	s.flush()
}

// dropStaleLocked drops requests that have not arrived in time.
func (s *Session) dropStaleLocked(now int64) {
	if s.m.Arriving() == 0 {
		return
	}
	for _, stale := range s.m.StaleRequests(now, s.env.cfg.Memory.Served()) {
		in, e := s.inbounds[stale.Request.ID.Index()], stale.Err
		if e == nil {
			e = in.hold.Exhausted(in.Whole())
		}
		s.dropLocked(in, e)
	}
}

// dropLocked answers a request that has not arrived completely.
func (s *Session) dropLocked(in *Inbound, e *tandem.Error) {
	s.m.Drop(&in.Request, e)
	s.droppedLocked(in)
}

func (s *Session) droppedLocked(in *Inbound) {
	in.hold.Release()
	in.hold = nil
	s.forgetLocked(in)
}

// endGoneLocked ends the contexts of streams of this side that are over.
func (s *Session) endGoneLocked() {
	if s.m.HasGone() {
		s.endStreamsLocked()
	}
}

func (s *Session) endStreamsLocked() {
	for _, st := range s.m.Gone() {
		st.Cancel(st.RecvErr())
	}
}
