package machine

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/wire"
)

// difference returns the first lines that differ.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		line := func(list []string) string {
			if i < len(list) {
				return list[i]
			}
			return "(the end)"
		}
		if line(w) != line(g) {
			return fmt.Sprintf("line %d\nwant %s\n got %s", i+1, line(w), line(g))
		}
	}
	return "nothing"
}

// words splits a line at spaces outside quotes.
func words(line string) []string {
	quoted := false
	return strings.FieldsFunc(line, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
}

// settings changes settings as the words say.
func settings(t *testing.T, s *wire.Settings, list []string) {
	for _, w := range list {
		name, value, _ := strings.Cut(w, "=")
		n, err := strconv.ParseUint(value, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		switch name {
		case "open":
			s.MaxOpen = n
		case "window":
			s.StreamWindow = n
		case "conn":
			s.ConnWindow = n
		case "message":
			s.MaxMessage = n
		default:
			t.Fatalf("no setting %q", name)
		}
	}
}

func id(t *testing.T, text string) wire.Stream {
	t.Helper()
	index, generation, ok := strings.Cut(text, ":")
	i, err := strconv.ParseUint(index, 10, 16)
	g, err2 := strconv.ParseUint(generation, 10, 40)
	if !ok || err != nil || err2 != nil {
		t.Fatalf("%q is not the number of a call", text)
	}
	return wire.MakeStream(uint16(i), g)
}

func showID(id wire.Stream) string { return fmt.Sprintf("%d:%d", id.Index(), uint64(id)>>16) }

func message(t *testing.T, text string) []byte {
	t.Helper()
	if strings.HasPrefix(text, `"`) {
		return []byte(strings.Trim(text, `"`))
	}
	letter, count, _ := strings.Cut(text, "*")
	n, err := strconv.Atoi(count)
	if err != nil || len(letter) != 1 {
		t.Fatalf("%q is not a message", text)
	}
	return bytes.Repeat([]byte(letter), n)
}

// showMessage returns a short message in quotes, and a long one as letters and their numbers.
func showMessage(b []byte) string {
	if len(b) <= 40 {
		return strconv.Quote(string(b))
	}
	var runs []string
	for len(b) > 0 {
		rest := bytes.TrimLeft(b, string(b[:1]))
		runs = append(runs, fmt.Sprintf("%c*%d", b[0], len(b)-len(rest)))
		b = rest
	}
	return strings.Join(runs, "+")
}

// option returns the value of the word that begins with name=, or "".
func option(list []string, name string) string {
	for _, w := range list {
		if value, ok := strings.CutPrefix(w, name+"="); ok {
			return value
		}
	}
	return ""
}

func number(t *testing.T, list []string, name string) uint64 {
	t.Helper()
	text := option(list, name)
	if text == "" {
		return 0
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func duration(t *testing.T, list []string) time.Duration {
	t.Helper()
	text := option(list, "timeout")
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

type flagName struct {
	name string
	flag wire.Flags
}

// typeNames, flagNames and fieldNames are the words for frames and calls. inOrder is how many
// words a frame has before its flags and fields.
var (
	fieldNames = []string{"number", "timeout", "size", "codec", "compressor", "metadata", "code", "n", "accepted", "reason", "bytes"}
	inOrder    = map[wire.Type]int{wire.TypeRequest: 2, wire.TypeResponse: 1, wire.TypeData: 1, wire.TypeWindow: 1}

	typeNames = map[string]wire.Type{
		"request": wire.TypeRequest, "response": wire.TypeResponse, "data": wire.TypeData, "cancel": wire.TypeCancel, "reset": wire.TypeReset,
		"window": wire.TypeWindow, "ping": wire.TypePing, "pong": wire.TypePong, "goaway": wire.TypeGoAway, "later": wire.TypeGoAway + 1,
	}
	flagNames = []flagName{
		{"end", wire.FlagEnd}, {"last", wire.FlagLast}, {"oneway", wire.FlagOneWay}, {"stream", wire.FlagStream},
		{"compressed", wire.FlagCompressed}, {"answer", wire.FlagAnswer},
	}
)

// checkWords fails for a word that is neither a flag nor a field, so that a typing error is
// not ignored.
func checkWords(t *testing.T, list []string) {
	t.Helper()
	for _, w := range list {
		name, _, field := strings.Cut(w, "=")
		known := slices.ContainsFunc(flagNames, func(f flagName) bool { return f.name == w })
		if !known && (!field || !slices.Contains(fieldNames, name)) {
			t.Fatalf("no flag or field %q", w)
		}
	}
}

// moreOf returns what else is to be said of a call that runs.
func moreOf(in *Request, metadata tandem.Metadata) (text string) {
	for key, values := range metadata {
		text += " metadata=" + key + ":" + strings.Join(values, ",")
	}
	switch {
	case in.stream != nil:
		text += " stream"
	case in.OneWay:
		text += " oneway"
	}
	return text
}

func timeLeft(deadline, now int64) string {
	if deadline == 0 {
		return ""
	}
	return " timeout=" + time.Duration(deadline-now).String()
}

func showError(e *tandem.Error) string {
	text := e.Error()
	if e.NotExecuted {
		text += " (not executed)"
	}
	return text
}

func showFrame(t *testing.T, h wire.Header, payload []byte) string {
	var text string
	for name, kind := range typeNames {
		if kind == h.Type {
			text = name
		}
	}
	if h.Type < wire.TypePing {
		text += " " + showID(h.Stream)
	}
	text += showPayload(t, h, payload)
	for _, f := range flagNames {
		if h.Flags&f.flag != 0 {
			text += " " + f.name
		}
	}
	return text
}

// showPayload returns what a frame carries.
func showPayload(t *testing.T, h wire.Header, payload []byte) string {
	fail := func(err error) {
		if err != nil {
			t.Fatalf("a bad frame is written: %v", err)
		}
	}
	switch h.Type {
	case wire.TypeRequest:
		var r wire.Request
		block, err := wire.ParseRequest(payload, &r)
		fail(err)
		name := string(r.Name.Text)
		switch {
		case r.Name.Text == nil:
			name = strconv.Itoa(r.Name.Number)
		case r.Name.Define:
			name += " number=new"
		}
		return " " + name + " " + showMessage(block) + fields(r.Timeout, r.Size)
	case wire.TypeResponse:
		var r wire.Response
		block, err := wire.ParseResponse(payload, &r)
		fail(err)
		return showStatus(t, r.Status) + " " + showMessage(block) + fields(0, r.Size)
	case wire.TypeData:
		return " " + showMessage(payload)
	case wire.TypeReset:
		return showStatus(t, payload)
	case wire.TypeWindow:
		n, err := wire.ParseWindow(payload)
		fail(err)
		return fmt.Sprintf(" %d", n)
	case wire.TypePing, wire.TypePong:
		return fmt.Sprintf(" n=%d", payload[0])
	case wire.TypeGoAway:
		g, err := wire.ParseGoAway(payload)
		fail(err)
		return fmt.Sprintf(" accepted=%d reason=%d", g.Accepted, g.Reason)
	}
	return ""
}

func fields(timeout time.Duration, size uint64) (text string) {
	if timeout > 0 {
		text += " timeout=" + timeout.String()
	}
	if size > 0 {
		text += fmt.Sprintf(" size=%d", size)
	}
	return text
}

func showStatus(t *testing.T, b []byte) string {
	if len(b) == 0 {
		return ""
	}
	st, err := wire.ParseStatus(b)
	if err != nil {
		t.Fatalf("a bad status is written: %v", err)
	}
	text := fmt.Sprintf(" (%v: %s", st.Code, st.Message)
	if st.NotExecuted {
		text += "; not executed"
	}
	return text + ")"
}
