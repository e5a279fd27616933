package web

import (
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// The forms in which a stream's messages are sent to plain HTTP callers.
const (
	typeEvents = "text/event-stream" // server-sent events
	typeLines  = "application/x-ndjson"
	typeLines2 = "application/jsonl"
	typeJSON   = "application/json" // the only message of the response
)

// streamForms are the forms that an Accept header may choose for a stream, the first of those
// that are accepted alike. A single message is only possible if the request is a stream of lines.
var streamForms = []string{typeEvents, typeLines, typeLines2, typeJSON}

// isLines reports whether a media type is JSON with a value a line.
func isLines(kind string) bool { return kind == typeLines || kind == typeLines2 }

// responseForm returns the form of the response to a plain HTTP request for a stream; "" if the
// request does not name one, and its body is one message: such a request is refused.
func responseForm(accept []string, lines bool, m *server.Method) string {
	best, form := 0.0, ""
	for _, name := range streamForms {
		if q := quality(accept, name); q > best && (lines || name != typeJSON) {
			best, form = q, name
		}
	}
	if form != "" || !lines {
		return form
	}
	if m := protoMethod(m.Name); m != nil && !m.IsStreamingServer() {
		return typeJSON
	}
	return typeLines
}

// quality returns how much an Accept header wants a media type that it names: RFC 9110, section
// 12.5.1. Ranges such as */* do not name it.
func quality(accept []string, name string) float64 {
	for _, field := range accept {
		for part := range strings.SplitSeq(field, ",") {
			kind, parameters, _ := strings.Cut(part, ";")
			if !strings.EqualFold(strings.TrimSpace(kind), name) {
				continue
			}
			for p := range strings.SplitSeq(parameters, ";") {
				key, value, _ := strings.Cut(strings.TrimSpace(p), "=")
				if q, err := strconv.ParseFloat(value, 64); strings.EqualFold(key, "q") && err == nil {
					return q
				}
			}
			return 1
		}
	}
	return 0
}

// protoMethod returns the definition of a method in Protocol Buffers, nil if none is linked.
func protoMethod(name string) protoreflect.MethodDescriptor {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil
	}
	m, _ := d.(protoreflect.MethodDescriptor)
	return m
}

// plainStream returns how a plain HTTP request calls a stream, nil if it does not.
func (x *exchange) plainStream() *plainStream {
	switch r := x.req; {
	case x.method == nil || x.method.Kind != tandem.Streaming || x.codec == nil || x.codec.Name() != "json" || x.kind.protocol != "connect":
		return nil
	case x.kind.streaming != nil && *x.kind.streaming && !x.kind.lines:
		return nil
	default:
		form := responseForm(r.Header.Values("Accept"), x.kind.lines, x.method)
		switch {
		case form == "" && x.route == nil:
			return nil
		case form == "":
			form = typeLines
		}
		return &plainStream{x: x, form: form, trailer: http.Header{}}
	}
}
