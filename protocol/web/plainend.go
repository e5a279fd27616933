package web

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tandem-rpc/tandem"
)

// heartbeat is how often a comment is sent with server-sent events, so that proxies don't take the
// connection for idle, and a client that is gone is noticed. The specification suggests 15 s.
const heartbeat = 15 * time.Second

// beat sends a comment, unless a message is being sent.
func (p *plainStream) beat() {
	x := p.x
	if !x.sending.TryLock() {
		p.beats.Reset(heartbeat)
		return
	}
	defer x.sending.Unlock()
	if x.finished.Load() {
		return
	}
	if !x.sent {
		x.sent = true
		addHeader(p.ResponseHeader(), x.header)
	}
	p.begin()
	if p.write([]byte(":\n\n")) == nil && p.flush() == nil {
		p.beats.Reset(heartbeat)
	}
}

// codeField is the field of the trailer that has the code of an error, which a message can't be
// mistaken for.
const codeField = "Tandem-Code"

// finish ends the response.
func (p *plainStream) finish(g *gateway) {
	x := p.x
	switch {
	case p.form == typeJSON && x.err == nil && p.several:
		x.err = errSeveral()
	case p.form == typeJSON && x.err == nil && p.only == nil:
		x.err = tandem.Errorf(tandem.Internal, "the method has sent no message")
	}
	switch {
	case x.err != nil && !p.begun:
		_ = g.failures.Write(x.gate, x.req, toConnect(x.err, p.trailer)) // an error means that the client is gone
		return
	case p.form == typeJSON:
		p.finishJSON()
		return
	}
	p.begin()
	if last := p.last(); last != "" {
		_ = p.write([]byte(last))
	}
	h := p.ResponseHeader()
	if x.err != nil {
		h.Set(http.TrailerPrefix+codeField, plainError(x.err).Code)
	}
	for name, values := range p.trailer {
		h[http.TrailerPrefix+name] = values
	}
}

// last returns what follows the last message: the error if there is one, and an event that lets a
// page close its EventSource, which would call again otherwise.
func (p *plainStream) last() string {
	switch failed := p.x.err != nil; {
	case failed && p.form == typeEvents:
		return "event: error\ndata: " + encodeJSON(plainError(p.x.err)) + "\n\n"
	case failed:
		return encodeJSON(object{"error": plainError(p.x.err)}) + "\n"
	case p.form == typeEvents:
		return "event: end\ndata: {}\n\n"
	}
	return ""
}

// finishJSON answers with the only message, as a unary call does.
func (p *plainStream) finishJSON() {
	h := p.ResponseHeader()
	for name, values := range p.trailer {
		h["Trailer-"+name] = values
	}
	h.Set("Content-Type", typeJSON)
	h.Set("Content-Length", strconv.Itoa(len(p.only)))
	h.Add("Vary", "Accept")
	p.x.limitAnswer(len(p.only))
	p.x.gate.WriteHeader(http.StatusOK)
	_ = p.write(p.only) // an error means that the client is gone
}

// errorObject is an error in JSON, as connect writes it for unary calls.
type errorObject struct {
	Code    string         `json:"code"`
	Message string         `json:"message,omitempty"`
	Details []detailObject `json:"details,omitempty"`
}

type detailObject struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

func plainError(err error) errorObject {
	e := toConnect(err)
	out := errorObject{Code: e.Code().String(), Message: e.Message()}
	for _, d := range tandem.AsError(err).Details {
		out.Details = append(out.Details, detailObject{d.Type[strings.LastIndexByte(d.Type, '/')+1:], base64.RawStdEncoding.EncodeToString(d.Value)})
	}
	return out
}

func encodeJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "{}"
	}
	return string(b)
}
