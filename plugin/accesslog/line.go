package accesslog

import (
	"encoding/hex"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/tandem-rpc/tandem"
)

// line holds a line while it is built.
type line struct{ b []byte }

func (l *line) write(log *Log, side string, call *tandem.Call, end *tandem.Outcome) {
	code := end.Code()
	b := l.b[:0]
	b = append(b, `{"time":"`...)
	b = log.clock.append(b, end.Began.Add(end.Took))
	b = append(b, `","level":"`...)
	b = append(b, levelName(level(code))...)
	b = append(b, `","msg":"call","side":"`...)
	b = append(b, side...)
	b = append(b, `","method":`...)
	b = appendQuoted(b, call.Method)
	b = appendPeer(b, call.Peer)
	b = append(b, `,"code":"`...)
	b = append(b, code.String()...)
	b = append(b, `","took":`...)
	b = strconv.AppendInt(b, int64(end.Took), 10)
	if end.Attempts > 1 {
		b = append(b, `,"attempts":`...)
		b = strconv.AppendInt(b, int64(end.Attempts), 10)
	}
	if end.Err != nil {
		b = append(b, `,"error":`...)
		b = appendQuoted(b, tandem.AsError(end.Err).Message)
	}
	if call.Identity != nil {
		b = append(b, `,"identity":`...)
		b = appendQuoted(b, log.identity(call.Identity))
	}
	if call.Trace.Valid() {
		b = append(b, `,"trace_id":"`...)
		b = hex.AppendEncode(b, call.Trace.ID[:])
		b = append(b, `","span_id":"`...)
		b = hex.AppendEncode(b, call.Trace.Span[:])
		b = append(b, '"')
	}
	b = append(b, "}\n"...)
	l.b = b
}

func hexOf(b []byte) string { return hex.EncodeToString(b) }

func levelName(l slog.Level) string {
	switch l {
	case slog.LevelInfo:
		return "INFO"
	case slog.LevelWarn:
		return "WARN"
	}
	return "ERROR"
}

func appendPeer(b []byte, p *tandem.Peer) []byte {
	if p == nil || p.Addr == nil {
		return b
	}
	b = append(b, `,"peer":"`...)
	if tcp, ok := p.Addr.(*net.TCPAddr); ok { // without the allocation of String
		at := tcp.AddrPort()
		b = netip.AddrPortFrom(at.Addr().Unmap(), at.Port()).AppendTo(b)
		b = append(b, '"')
	} else {
		b = appendQuoted(b[:len(b)-1], p.Addr.String())
	}
	b = append(b, `,"protocol":`...)
	return appendQuoted(b, p.Protocol)
}

// appendQuoted appends s as a JSON string. Whatever s is, the result is valid UTF-8 on one
// line.
func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		if c := s[i]; c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if n == 1 || r == '\u2028' || r == '\u2029' {
			b = append(b, s[from:i]...)
			b = appendEscaped(b, r)
			from = i + n
		}
		i += n
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

// appendEscaped appends a rune that must be escaped; bytes that are not UTF-8 are written as
// U+FFFD.
func appendEscaped(b []byte, r rune) []byte {
	const digits = "0123456789abcdef"
	if r == '"' || r == '\\' {
		return append(b, '\\', byte(r))
	}
	return append(b, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}

// stamps formats times. All times of one second share a formatted prefix.
type stamps struct{ last atomic.Pointer[second] }

type second struct {
	unix int64
	text string // "2006-01-02T15:04:05."
}

// append appends t as RFC 3339 has it, in UTC, with milliseconds.
func (s *stamps) append(b []byte, t time.Time) []byte {
	unix := t.Unix()
	last := s.last.Load()
	if last == nil || last.unix != unix {
		last = &second{unix, t.UTC().Format("2006-01-02T15:04:05.")}
		s.last.Store(last)
	}
	const digits = "0123456789"
	ms := t.Nanosecond() / int(time.Millisecond)
	b = append(b, last.text...)
	return append(b, digits[ms/100], digits[ms/10%10], digits[ms%10], 'Z')
}
