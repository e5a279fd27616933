package traffic

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem/wire"
)

// tandemDecoder decodes tandem's own protocol; docs/protocol.md describes it.
type tandemDecoder struct {
	c     *Conversation
	sides [2]tandemSide
}

// tandemSide is what is known of a side.
type tandemSide struct {
	in        input
	prefaced  bool
	settings  wire.Settings
	names     []string // by number
	nameBytes int
	open      map[wire.Stream]*openCall // calls of this side
}

// openCall is a call that is not over on the wire.
type openCall struct {
	method string
	began  time.Time
	stream bool
	oneWay bool
	size   [2]int64 // of the message of each side that has begun
	start  [2]string
}

func newTandem(c *Conversation) *tandemDecoder {
	t := &tandemDecoder{c: c}
	for i := range t.sides {
		t.sides[i] = tandemSide{open: make(map[wire.Stream]*openCall), settings: wire.DefaultSettings()}
	}
	return t
}

func (t *tandemDecoder) feed(from Side, p []byte) error {
	s := &t.sides[from]
	return s.in.each(p, wire.HeaderLen+wire.MaxBlock, func(p []byte) (int, error) {
		if !s.prefaced {
			return t.preface(s, p)
		}
		if len(p) < wire.HeaderLen {
			return 0, nil
		}
		h, err := wire.ParseHeader(p)
		if err != nil || len(p) < wire.HeaderLen+h.Length {
			return 0, err
		}
		n := wire.HeaderLen + h.Length
		return n, t.frame(from, h, p[wire.HeaderLen:n])
	})
}

func (t *tandemDecoder) preface(s *tandemSide, p []byte) (int, error) {
	if len(p) < wire.PrefaceLen {
		return 0, nil
	}
	version, n, err := wire.ParsePrefaceHead(p[:wire.PrefaceLen])
	if n += wire.PrefaceLen; err != nil || len(p) < n {
		return 0, err
	}
	if s.settings, err = wire.ParseSettings(p[wire.PrefaceLen:n]); err != nil {
		return 0, err
	}
	s.prefaced = true
	detail := fmt.Sprintf("version %d, codecs %s", version, strings.Join(s.settings.Codecs, " "))
	if len(s.settings.Compressors) > 0 {
		detail += ", compressors " + strings.Join(s.settings.Compressors, " ")
	}
	t.c.say(Event{Kind: "preface", Detail: detail})
	return n, nil
}

func (t *tandemDecoder) frame(from Side, h wire.Header, body []byte) error {
	switch h.Type {
	case wire.TypeRequest:
		return t.request(from, h, body)
	case wire.TypeResponse:
		return t.response(from, h, body)
	case wire.TypeData:
		t.data(from, h, body)
	case wire.TypeCancel, wire.TypeReset:
		return t.ended(from, h, body)
	case wire.TypeGoAway:
		g, err := wire.ParseGoAway(body)
		if err != nil {
			return err
		}
		t.c.say(Event{Kind: "goaway", Detail: strings.TrimSuffix(fmt.Sprintf("reason %d, %d requests were accepted: %.200s", g.Reason, g.Accepted, g.Message), ": ")})
	case wire.TypeWindow:
		n, err := wire.ParseWindow(body)
		if err != nil {
			return err
		}
		t.quiet(h, "window", fmt.Sprintf("%d more bytes", n))
	case wire.TypePing:
		t.quiet(h, "ping", "")
	case wire.TypePong:
		t.quiet(h, "pong", "")
	default:
		t.quiet(h, "frame", fmt.Sprintf("type %d, which is not known", h.Type))
	}
	return nil
}

// quiet emits an event of a frame that only keeps the connection going.
func (t *tandemDecoder) quiet(h wire.Header, kind, detail string) {
	if t.c.options.All {
		t.c.say(Event{Kind: kind, Call: callNumber(h.Stream), Size: int64(h.Length), Detail: detail})
	}
}

// callNumber returns the number of a call as index.generation, "" for the connection.
func callNumber(s wire.Stream) string {
	if s == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", s.Index(), uint64(s)>>16) //nolint:mnd // the index has 16 bits
}

func (t *tandemDecoder) request(from Side, h wire.Header, body []byte) error {
	var r wire.Request
	block, err := wire.ParseRequest(body, &r)
	if err != nil {
		return err
	}
	s, callee := &t.sides[from], &t.sides[from.other()]
	method, err := s.method(&r.Name)
	if err != nil {
		return err
	}
	call := &openCall{method: method, began: t.c.now, stream: h.Flags&wire.FlagStream != 0, oneWay: h.Flags&wire.FlagOneWay != 0}
	if len(s.open) >= maxOpen {
		return errors.New("too many calls are open")
	}
	if !call.oneWay || h.Flags&wire.FlagEnd == 0 {
		s.open[h.Stream] = call
	}
	e := Event{Kind: "request", Call: callNumber(h.Stream), Method: method, Size: wholeSize(h, r.Size, block), Payload: t.c.payload(block)}
	e.Detail = requestDetail(&r, h, &callee.settings)
	t.c.say(e)
	call.begin(from, h, block)
	return nil
}

// wholeSize returns the size of a message of which a block is the first.
func wholeSize(h wire.Header, declared uint64, block []byte) int64 {
	if h.Flags&wire.FlagEnd == 0 && declared < 1<<62 {
		return int64(declared)
	}
	return int64(len(block))
}

// method returns the name of a request's method, and keeps it if it gets a number.
func (s *tandemSide) method(n *wire.Name) (string, error) {
	if n.Text == nil {
		if n.Number < 0 || n.Number >= len(s.names) {
			return "", fmt.Errorf("name number %d, which was not given", n.Number)
		}
		return s.names[n.Number], nil
	}
	name := string(n.Text)
	if n.Define {
		if s.nameBytes += len(name); len(s.names) >= wire.MaxNames || s.nameBytes > wire.MaxNameBytes {
			return "", errors.New("too many names of methods")
		}
		s.names = append(s.names, name)
	}
	return name, nil
}

func requestDetail(r *wire.Request, h wire.Header, callee *wire.Settings) string {
	parts := []string{named(callee.Codecs, int(r.Codec), "codec")}
	for _, flag := range []struct {
		set  bool
		text string
	}{
		{h.Flags&wire.FlagStream != 0, "stream"}, {h.Flags&wire.FlagOneWay != 0, "one-way"},
		{h.Flags&wire.FlagCompressed != 0, named(callee.Compressors, int(r.Compressor)-1, "compressor")},
		{r.Timeout > 0, "timeout " + r.Timeout.String()}, {r.Attempt > 0, fmt.Sprintf("attempt %d", r.Attempt)},
	} {
		if flag.set {
			parts = append(parts, flag.text)
		}
	}
	if md, err := wire.ParseMetadata(r.Metadata); err == nil && len(md) > 0 {
		parts = append(parts, "metadata "+keysOf(md))
	}
	return strings.Join(parts, ", ")
}

// named returns the name that a peer has given a number.
func named(names []string, n int, what string) string {
	if n >= 0 && n < len(names) {
		return names[n]
	}
	return fmt.Sprintf("%s %d", what, n)
}

func (t *tandemDecoder) response(from Side, h wire.Header, body []byte) error {
	var r wire.Response
	block, err := wire.ParseResponse(body, &r)
	if err != nil {
		return err
	}
	st, err := wire.ParseStatus(r.Status)
	if err != nil {
		return err
	}
	call, known := t.call(from, h)
	if !known {
		t.quiet(h, "response", "of a call that is over")
		return nil
	}
	e := Event{
		Kind: "response", Call: callNumber(h.Stream), Method: call.method, Size: wholeSize(h, r.Size, block), Status: statusText(&st),
		Took: t.c.now.Sub(call.began).Seconds(), Payload: t.c.payload(block),
	}
	if r.HasLoad {
		e.Detail = fmt.Sprintf("load %d running, %d waiting, %d %%", r.Load.InFlight, r.Load.Queued, r.Load.Utilization)
	}
	if call.stream && h.Flags&wire.FlagLast == 0 {
		e.Kind = "accept" // of a stream
	}
	t.c.say(e)
	call.begin(from, h, block)
	t.finish(from, h, call)
	return nil
}

// call returns the call that a frame is about.
func (t *tandemDecoder) call(from Side, h wire.Header) (*openCall, bool) {
	caller := from
	if h.Flags&wire.FlagAnswer != 0 {
		caller = from.other()
	}
	call, known := t.sides[caller].open[h.Stream]
	return call, known
}

// finish forgets a call if a frame ends it.
func (t *tandemDecoder) finish(from Side, h wire.Header, call *openCall) {
	answer := h.Flags&wire.FlagAnswer != 0
	switch {
	case call.oneWay && !answer && h.Flags&wire.FlagEnd != 0:
		delete(t.sides[from].open, h.Stream)
	case answer && call.stream && h.Type == wire.TypeResponse && h.Flags&wire.FlagLast != 0,
		answer && !call.stream && h.Flags&wire.FlagEnd != 0:
		delete(t.sides[from.other()].open, h.Stream)
	}
}

// begin counts the first block of a message that goes on.
func (call *openCall) begin(from Side, h wire.Header, block []byte) {
	call.size[from], call.start[from] = 0, ""
	if h.Flags&wire.FlagEnd == 0 {
		call.size[from] = int64(len(block))
	}
}

// data counts a block, and emits an event at the end of its message.
func (t *tandemDecoder) data(from Side, h wire.Header, body []byte) {
	call, known := t.call(from, h)
	if !known {
		t.quiet(h, "data", "of a call that is over")
		return
	}
	if call.size[from] == 0 {
		call.start[from] = t.c.payload(body)
	}
	call.size[from] += int64(len(body))
	if h.Flags&wire.FlagEnd != 0 || h.Flags&wire.FlagLast != 0 {
		e := Event{Kind: "data", Call: callNumber(h.Stream), Method: call.method, Size: call.size[from], Payload: call.start[from]}
		if h.Flags&wire.FlagLast != 0 {
			e.Detail = "the last message"
		}
		t.c.say(e)
		call.size[from], call.start[from] = 0, ""
	}
	t.finish(from, h, call)
}

// ended emits the event of a call that one side gives up.
func (t *tandemDecoder) ended(from Side, h wire.Header, body []byte) error {
	caller, kind, status := from, "cancel", ""
	if h.Type == wire.TypeReset {
		caller, kind = from.other(), "reset"
		st, err := wire.ParseStatus(body)
		if err != nil {
			return err
		}
		status = statusText(&st)
	}
	call, known := t.sides[caller].open[h.Stream]
	if !known {
		t.quiet(h, kind, "of a call that is over")
		return nil
	}
	t.c.say(Event{Kind: kind, Call: callNumber(h.Stream), Method: call.method, Status: status, Took: t.c.now.Sub(call.began).Seconds()})
	if h.Type == wire.TypeReset {
		delete(t.sides[caller].open, h.Stream)
	}
	return nil
}

func statusText(st *wire.Status) string {
	text := st.Code.String()
	if st.Message != "" {
		text += fmt.Sprintf(": %.200s", st.Message)
	}
	if st.NotExecuted {
		text += " (not executed)"
	}
	return text
}
