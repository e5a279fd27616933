package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

// The messages of the suite, with the fields that are needed here. Messages inside an Any
// stay JSON.
type (
	header struct {
		Name  string   `json:"name"`
		Value []string `json:"value"`
	}

	failure struct {
		Code    tandem.Code       `json:"code"`
		Message string            `json:"message"`
		Details []json.RawMessage `json:"details"`
	}

	// definition is the response to send. For a unary call, it has at most one message.
	definition struct {
		Headers  []header `json:"responseHeaders"`
		Trailers []header `json:"responseTrailers"`
		Error    *failure `json:"error"`
		DelayMS  int      `json:"responseDelayMs"`
		Data     messages `json:"responseData"`
	}

	request struct {
		Definition *definition `json:"responseDefinition"`
		FullDuplex bool        `json:"fullDuplex"`
	}

	response struct {
		Payload payload `json:"payload"`
	}

	payload struct {
		Data []byte `json:"data,omitempty"`
		Info *info  `json:"requestInfo,omitempty"`
	}

	info struct {
		Headers   []header          `json:"requestHeaders,omitempty"`
		TimeoutMS *int64            `json:"timeoutMs,omitempty"`
		Requests  []json.RawMessage `json:"requests,omitempty"`
		Get       *getInfo          `json:"connectGetInfo,omitempty"`
	}

	getInfo struct {
		Params []header `json:"queryParams"`
	}

	// messages is one message or a list: the suite uses the same field name for both.
	messages [][]byte
)

func (m *messages) UnmarshalJSON(b []byte) error {
	if b[0] == '[' {
		return json.Unmarshal(b, (*[][]byte)(m))
	}
	*m = make(messages, 1)
	return json.Unmarshal(b, &(*m)[0])
}

// conformance is the suite's service.
type conformance struct{ types linkedTypes }

func register(srv *server.Server, types linkedTypes) error {
	c := &conformance{types}
	unary := func(name string, opts ...server.MethodOption) error {
		return srv.RegisterFunc(service+"."+name, func(ctx context.Context, call *tandem.Call) error {
			return c.unary(ctx, call, protoreflect.Name(name))
		}, opts...)
	}
	stream := func(name string, serve func(*streamed) error) error {
		return server.HandleStream(srv, service+"."+name, func(ctx context.Context, s *tandem.Stream[struct{}, struct{}]) error {
			return serve(&streamed{conformance: c, ctx: ctx, stream: s, name: protoreflect.Name(name)})
		})
	}
	return errors.Join(
		unary("Unary"), unary("IdempotentUnary", server.MethodSafe()),
		stream("ClientStream", (*streamed).client), stream("ServerStream", (*streamed).server), stream("BidiStream", (*streamed).both))
}

// unary handles a unary call.
func (c *conformance) unary(ctx context.Context, call *tandem.Call, name protoreflect.Name) error {
	m := c.types[name+"Request"].New().Interface()
	if err := call.Body.Decode(m); err != nil {
		return err
	}
	var r request
	raw, err := c.open(m, &r)
	if err != nil {
		return err
	}
	reply, err := c.answer(ctx, r.Definition, []json.RawMessage{raw})
	if err != nil {
		return err
	}
	out, err := c.types.encode(name+"Response", reply)
	if err != nil {
		return err
	}
	return call.Body.Encode(out)
}

// open reads a request, and returns it as an Any in JSON.
func (c *conformance) open(m proto.Message, r *request) (json.RawMessage, error) {
	if err := c.types.decode(m, r); err != nil {
		return nil, err
	}
	wrapped, err := anypb.New(m)
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(wrapped)
}

// answer returns the only message, or the error, of a definition.
func (c *conformance) answer(ctx context.Context, d *definition, requests []json.RawMessage) (*response, error) {
	about := describe(ctx, requests)
	if d == nil {
		return &response{payload{Info: about}}, nil
	}
	d.announce(ctx)
	if err := d.pause(ctx); err != nil {
		return nil, err
	}
	if d.Error != nil {
		return nil, c.failure(d.Error, about)
	}
	r := &response{payload{Info: about}}
	if len(d.Data) > 0 {
		r.Payload.Data = d.Data[0]
	}
	return r, nil
}

// describe returns what was received: the header, the deadline and the requests.
func describe(ctx context.Context, requests []json.RawMessage) *info {
	in := &info{Requests: requests}
	r := web.Request(ctx)
	in.Headers = listed(r.Header)
	if d := tandem.FromContext(ctx).Deadline; !d.IsZero() {
		in.TimeoutMS = new(time.Until(d).Milliseconds())
	}
	if r.Method == http.MethodGet {
		in.Get = &getInfo{listed(http.Header(r.URL.Query()))}
	}
	return in
}

func listed(h http.Header) []header {
	var list []header
	for name, values := range h {
		list = append(list, header{name, values})
	}
	return list
}

// announce sets the header and the trailer of the response.
func (d *definition) announce(ctx context.Context) {
	to := web.Header(ctx)
	for _, h := range d.Headers {
		for _, v := range h.Value {
			to.Add(h.Name, v)
		}
	}
	call := tandem.FromContext(ctx)
	call.Trailer = tandem.Metadata{}
	for _, h := range d.Trailers {
		for _, v := range h.Value {
			if b, err := connect.DecodeBinaryHeader(v); err == nil && strings.HasSuffix(h.Name, "-bin") {
				v = string(b)
			}
			call.Trailer.Add(h.Name, v)
		}
	}
}

// pause waits as long as the definition says.
func (d *definition) pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(d.DelayMS) * time.Millisecond):
		return nil
	}
}

// failure returns the error of a definition. about, if not nil, is added as a detail.
func (c *conformance) failure(f *failure, about *info) error {
	e := &tandem.Error{Code: f.Code, Message: f.Message}
	details := f.Details
	if about != nil {
		b, err := json.Marshal(about)
		if err != nil {
			return err
		}
		details = append(details, append([]byte(`{"@type":"type.googleapis.com/`+pkg+`ConformancePayload.RequestInfo",`), b[1:]...))
	}
	for _, d := range details {
		var wrapped anypb.Any
		if err := protojson.Unmarshal(d, &wrapped); err != nil {
			return err
		}
		e = e.WithDetail(strings.TrimPrefix(wrapped.GetTypeUrl(), "type.googleapis.com/"), wrapped.GetValue())
	}
	return e
}

// streamed is a streaming call.
type streamed struct {
	*conformance

	ctx    context.Context
	stream tandem.MessageStream
	name   protoreflect.Name
	seen   []json.RawMessage
}

// receive receives a request and records it.
func (s *streamed) receive() (*request, error) {
	m := s.types[s.name+"Request"].New().Interface()
	if err := s.stream.RecvMsg(m); err != nil {
		return nil, err
	}
	var r request
	raw, err := s.open(m, &r)
	s.seen = append(s.seen, raw)
	return &r, err
}

// receiveAll receives until the client has closed its side, and returns the first request.
func (s *streamed) receiveAll() (*request, error) {
	first := &request{}
	for {
		r, err := s.receive()
		switch {
		case errors.Is(err, io.EOF):
			return first, nil
		case err != nil:
			return nil, err
		case len(s.seen) == 1:
			first = r
		}
	}
}

func (s *streamed) send(r *response) error {
	m, err := s.types.encode(s.name+"Response", r)
	if err != nil {
		return err
	}
	return s.stream.SendMsg(m)
}

// client handles a client stream: many requests, one response.
func (s *streamed) client() error {
	first, err := s.receiveAll()
	if err != nil {
		return err
	}
	r, err := s.answer(s.ctx, first.Definition, s.seen)
	if err != nil {
		return err
	}
	return s.send(r)
}

// server handles a server stream: one request, many responses.
func (s *streamed) server() error {
	r, err := s.receive()
	if errors.Is(err, io.EOF) {
		return tandem.Errorf(tandem.Unimplemented, "there is no request")
	}
	if err != nil {
		return err
	}
	if _, err := s.receive(); err == nil {
		return tandem.Errorf(tandem.Unimplemented, "there is more than one request")
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	s.seen = s.seen[:1]
	return s.sendAll(r.Definition, 0)
}

// sendAll sends the messages of a definition after the first sent ones, and then its error.
func (s *streamed) sendAll(d *definition, sent int) error {
	if d == nil {
		return nil
	}
	if sent == 0 {
		d.announce(s.ctx)
		if len(d.Data) > 0 {
			if err := web.SendHeader(s.ctx); err != nil {
				return err
			}
		}
	}
	for ; sent < len(d.Data); sent++ {
		if err := d.pause(s.ctx); err != nil {
			return err
		}
		r := &response{payload{Data: d.Data[sent]}}
		if sent == 0 {
			r.Payload.Info = describe(s.ctx, s.seen)
		}
		if err := s.send(r); err != nil {
			return err
		}
	}
	return s.last(d, sent)
}

// last returns the error that ends a stream after sent messages, nil if there is none.
func (s *streamed) last(d *definition, sent int) error {
	switch {
	case d.Error == nil:
		return nil
	case sent > 0:
		return s.failure(d.Error, nil)
	}
	return s.failure(d.Error, describe(s.ctx, s.seen))
}

// both handles a bidirectional stream: it receives and sends alternately if the first request
// says so, else it first receives and then sends everything.
func (s *streamed) both() error {
	first, err := s.receive()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	d := first.Definition
	if !first.FullDuplex {
		if _, err := s.receiveAll(); err != nil {
			return err
		}
		return s.sendAll(d, 0)
	}
	if d == nil {
		d = &definition{}
	}
	return s.alternate(d)
}

func (s *streamed) alternate(d *definition) error {
	d.announce(s.ctx)
	if len(d.Data) > 0 {
		if err := web.SendHeader(s.ctx); err != nil {
			return err
		}
	}
	for sent := range d.Data {
		r := &response{payload{Data: d.Data[sent], Info: &info{Requests: s.seen}}}
		if sent == 0 {
			r.Payload.Info = describe(s.ctx, s.seen)
		}
		if err := d.pause(s.ctx); err != nil {
			return err
		}
		if err := s.send(r); err != nil {
			return err
		}
		s.seen = nil
		switch _, err := s.receive(); {
		case errors.Is(err, io.EOF):
			return s.rest(d, sent+1)
		case err != nil:
			return err
		}
	}
	return s.last(d, len(d.Data))
}

// rest sends the remaining messages when the client has closed its side.
func (s *streamed) rest(d *definition, sent int) error {
	if sent == 0 {
		return s.last(d, 0)
	}
	return s.sendAll(d, sent)
}
