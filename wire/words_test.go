package wire_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// element is a parsed preface or frame: the golden vectors, the examples of
// docs/reference/protocol.md and the fuzz targets use it.
type element struct {
	preface *wire.Settings // nil for a frame
	version uint8          // of a preface that was parsed
	header  wire.Header    // Length is not needed to append
	head    any            // *wire.Request, *wire.Response, *wire.Status, wire.GoAway, [8]byte, uint32 or nil
	block   []byte         // what follows the head
}

func (e *element) append(dst []byte) []byte {
	h := e.header
	switch head := e.head.(type) {
	case uint32:
		return wire.AppendWindow(dst, h.Stream, h.Flags, head)
	case [8]byte:
		return wire.AppendPing(dst, h.Type, head)
	case wire.GoAway:
		return wire.AppendGoAway(dst, head)
	}
	if e.preface != nil {
		return wire.AppendPreface(dst, *e.preface)
	}
	payload := append(appendHead(nil, e.head), e.block...)
	h.Length = len(payload)
	return append(wire.AppendHeader(dst, h), payload...)
}

func appendHead(dst []byte, head any) []byte {
	switch head := head.(type) {
	case *wire.Request:
		return wire.AppendRequest(dst, head)
	case *wire.Response:
		return wire.AppendResponse(dst, head)
	case *wire.Status:
		return wire.AppendStatus(dst, head)
	}
	return dst
}

var errShort = errors.New("not complete yet")

// parse parses the first element of b and returns the rest.
func parse(b []byte) (e element, rest []byte, err error) {
	if strings.HasPrefix(string(b), wire.Magic) {
		return parsePreface(b)
	}
	if len(b) < wire.HeaderLen {
		return e, nil, errShort
	}
	if e.header, err = wire.ParseHeader(b); err != nil {
		return e, nil, err
	}
	b = b[wire.HeaderLen:]
	if len(b) < e.header.Length {
		return e, nil, errShort
	}
	return e, b[e.header.Length:], e.parsePayload(b[:e.header.Length])
}

func parsePreface(b []byte) (e element, rest []byte, err error) {
	if len(b) < wire.PrefaceLen {
		return e, nil, errShort
	}
	version, n, err := wire.ParsePrefaceHead(b)
	if err != nil {
		return e, nil, err
	}
	if len(b) < wire.PrefaceLen+n {
		return e, nil, errShort
	}
	s, err := wire.ParseSettings(b[wire.PrefaceLen : wire.PrefaceLen+n])
	return element{preface: &s, version: version}, b[wire.PrefaceLen+n:], err
}

func (e *element) parsePayload(b []byte) (err error) {
	switch e.header.Type {
	case wire.TypeRequest:
		r := new(wire.Request)
		e.head = r
		e.block, err = wire.ParseRequest(b, r)
	case wire.TypeResponse:
		r := new(wire.Response)
		e.head = r
		e.block, err = wire.ParseResponse(b, r)
	case wire.TypeReset:
		var s wire.Status
		s, err = wire.ParseStatus(b)
		e.head = &s
	case wire.TypeWindow:
		e.head, err = wire.ParseWindow(b)
	case wire.TypePing, wire.TypePong:
		e.head, err = wire.ParsePing(b)
	case wire.TypeGoAway:
		e.head, err = wire.ParseGoAway(b)
	default:
		e.block = b
	}
	return err
}

var typeNames = map[wire.Type]string{
	wire.TypeRequest: "request", wire.TypeResponse: "response", wire.TypeData: "data", wire.TypeCancel: "cancel",
	wire.TypeReset: "reset", wire.TypeWindow: "window", wire.TypePing: "ping", wire.TypePong: "pong", wire.TypeGoAway: "goaway",
}

var flagNames = map[wire.Flags]string{
	wire.FlagEnd: "End", wire.FlagLast: "Last", wire.FlagOneWay: "OneWay", wire.FlagStream: "Stream",
	wire.FlagCompressed: "Compressed", wire.FlagAnswer: "Answer",
}

// words describes e in words, one line for each part.
func (e *element) words() []string {
	if e.preface != nil {
		version := cmp.Or(e.version, wire.Version)
		return append([]string{fmt.Sprintf("preface, version %d", version)}, settingsWords(e.preface)...)
	}
	lines := []string{headerWords(e.header)}
	switch head := e.head.(type) {
	case *wire.Request:
		lines = append(lines, requestWords(head)...)
	case *wire.Response:
		lines = append(lines, responseWords(head)...)
	case *wire.Status:
		lines = append(lines, statusWords(head)...)
	case uint32:
		lines = append(lines, fmt.Sprintf("credit %d bytes", head))
	case [8]byte:
		lines = append(lines, fmt.Sprintf("payload % x", head))
	case wire.GoAway:
		lines = append(lines, fmt.Sprintf("accepted %d, reason %d, message %q", head.Accepted, head.Reason, head.Message))
	}
	if len(e.block) > 0 {
		lines = append(lines, fmt.Sprintf("block %q", e.block))
	}
	return lines
}

func headerWords(h wire.Header) string {
	name := typeNames[h.Type]
	if name == "" {
		name = fmt.Sprintf("type %d", h.Type)
	}
	line := fmt.Sprintf("%s, %d bytes", name, h.Length)
	for _, f := range slices.Sorted(maps.Keys(flagNames)) {
		if h.Flags&f != 0 {
			line += ", " + flagNames[f]
		}
	}
	if h.Stream != 0 {
		line += fmt.Sprintf(", index %d, generation %d", h.Stream.Index(), h.Stream>>16)
	}
	return line
}

func settingsWords(s *wire.Settings) []string {
	return []string{
		fmt.Sprintf("largest message %d, open calls %d, stream window %d, connection window %d", s.MaxMessage, s.MaxOpen, s.StreamWindow, s.ConnWindow),
		fmt.Sprintf("codecs %q, compressors %q", s.Codecs, s.Compressors),
	}
}

func requestWords(r *wire.Request) []string {
	name := fmt.Sprintf("method number %d", r.Name.Number)
	switch {
	case r.Name.Define:
		name = fmt.Sprintf("method %q, which gets the next number", r.Name.Text)
	case r.Name.Text != nil:
		name = fmt.Sprintf("method %q, which gets no number", r.Name.Text)
	}
	lines := []string{name, fmt.Sprintf("codec %d", r.Codec)}
	if r.Timeout > 0 {
		lines = append(lines, fmt.Sprintf("timeout %v", r.Timeout))
	}
	if r.Attempt > 0 {
		lines = append(lines, fmt.Sprintf("attempt %d", r.Attempt))
	}
	if r.Compressor > 0 {
		lines = append(lines, fmt.Sprintf("compressor %d", r.Compressor))
	}
	lines = append(lines, metadataWords("metadata", r.Metadata)...)
	return append(lines, sizeWords(r.Size)...)
}

func responseWords(r *wire.Response) []string {
	var lines []string
	if len(r.Status) > 0 {
		s, err := wire.ParseStatus(r.Status)
		if err != nil {
			return []string{err.Error()}
		}
		lines = statusWords(&s)
	}
	lines = append(lines, metadataWords("trailer", r.Trailer)...)
	if r.HasLoad {
		lines = append(lines, fmt.Sprintf("load: %d in flight, %d queued, %d %%", r.Load.InFlight, r.Load.Queued, r.Load.Utilization))
	}
	return append(lines, sizeWords(r.Size)...)
}

func sizeWords(n uint64) []string {
	if n == 0 {
		return nil
	}
	return []string{fmt.Sprintf("message of %d bytes", n)}
}

func metadataWords(what string, b []byte) (lines []string) {
	m, err := wire.ParseMetadata(b)
	if err != nil {
		return []string{err.Error()}
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		lines = append(lines, fmt.Sprintf("%s %s: %q", what, key, m[key]))
	}
	return lines
}

func statusWords(s *wire.Status) []string {
	line := fmt.Sprintf("status %d (%s), message %q", s.Code, s.Code, s.Message)
	if s.NotExecuted {
		line += ", not executed"
	}
	switch {
	case s.RetryAfter > 0:
		line += fmt.Sprintf(", retry after %v", s.RetryAfter)
	case s.RetryAfter < 0:
		line += ", do not retry"
	}
	lines := []string{line}
	for _, d := range s.Details {
		lines = append(lines, fmt.Sprintf("detail %s: %q", d.Type, d.Value))
	}
	return lines
}

// mustMetadata encodes pairs that are known to be within the limits.
func mustMetadata(m tandem.Metadata) []byte {
	b, err := wire.AppendMetadata(nil, m)
	if err != nil {
		panic(err)
	}
	return b
}

func encodeStatus(s wire.Status) []byte { return wire.AppendStatus(nil, &s) }
