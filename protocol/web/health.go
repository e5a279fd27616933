package web

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/server"
)

// Health answers gRPC's health checks, version 1
// (https://github.com/grpc/grpc/blob/master/doc/health-checking.md). Its methods
// are safe for concurrent use.
type Health struct {
	srv *server.Server

	mu      sync.Mutex
	said    map[string]status // statuses that Set was given
	changed chan struct{}     // closed at the next Set
}

type status uint64

// The statuses of the protocol.
const (
	healthy       status = 1
	unhealthy     status = 2
	noSuchService status = 3
)

// RegisterHealth registers the service grpc.health.v1.Health, whose methods Check and Watch
// pass interceptors and limits like all others. A service is healthy if it is registered,
// and so is the server as a whole, named "", until [Health.Set] says otherwise. When the
// server drains every service becomes unhealthy, and Watch sends that and ends with
// Unavailable.
func RegisterHealth(srv *server.Server) (*Health, error) {
	h := &Health{srv: srv, said: map[string]status{}, changed: make(chan struct{})}
	err := server.Handle(srv, "grpc.health.v1.Health.Check", h.check, server.MethodSafe())
	if err == nil {
		err = server.HandleStream(srv, "grpc.health.v1.Health.Watch", h.watch)
	}
	return h, err
}

// Set says whether a service is healthy, registered or not; "" is the server as a whole.
func (h *Health) Set(service string, serving bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said[service] = unhealthy
	if serving {
		h.said[service] = healthy
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// status returns the status of a service, and a channel that is closed at the next Set.
func (h *Health) status(service string) (status, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.said[service]
	if !ok && (service == "" || h.has(service)) {
		s, ok = healthy, true
	}
	select {
	case <-h.srv.Draining():
		if ok {
			s = unhealthy
		}
	default:
	}
	if !ok {
		s = noSuchService
	}
	return s, h.changed
}

func (h *Health) has(service string) bool {
	for _, name := range h.srv.Methods() {
		if strings.HasPrefix(name, service+".") && strings.LastIndexByte(name, '.') == len(service) {
			return true
		}
	}
	return false
}

func (h *Health) check(_ context.Context, req *healthRequest) (*healthResponse, error) {
	s, _ := h.status(req.Service)
	if s == noSuchService {
		return nil, tandem.Errorf(tandem.NotFound, "no service %.200q here", req.Service)
	}
	return &healthResponse{s}, nil
}

// watch sends the status, and then each status that differs from the one before.
func (h *Health) watch(ctx context.Context, stream *tandem.Stream[healthRequest, healthResponse]) error {
	req, err := stream.Recv()
	if err != nil {
		return err
	}
	for last := status(0); ; {
		now, changed := h.status(req.Service)
		if now != last {
			if err := stream.Send(&healthResponse{now}); err != nil {
				return err
			}
			last = now
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		case <-h.srv.Draining():
			return h.sendLastStatus(stream, req.Service, last)
		}
	}
}

// sendLastStatus sends the last status to a watching client, and ends its stream.
func (h *Health) sendLastStatus(stream *tandem.Stream[healthRequest, healthResponse], service string, last status) error {
	if now, _ := h.status(service); now != last {
		if err := stream.Send(&healthResponse{now}); err != nil {
			return err
		}
	}
	return tandem.Errorf(tandem.Unavailable, "the server shuts down")
}

// healthRequest is grpc.health.v1.HealthCheckRequest.
type healthRequest struct {
	Service string `json:"service"`
}

// MarshalVT encodes it as Protocol Buffers.
func (r *healthRequest) MarshalVT() ([]byte, error) { return appendText(nil, 1, r.Service), nil }

// UnmarshalVT decodes it.
func (r *healthRequest) UnmarshalVT(b []byte) error {
	return fields(b, func(number protowire.Number, f field) { r.Service = f.textOf(number, 1, r.Service) })
}

// healthResponse is grpc.health.v1.HealthCheckResponse.
type healthResponse struct{ status status }

// MarshalVT encodes it as Protocol Buffers.
func (r *healthResponse) MarshalVT() ([]byte, error) {
	return protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), uint64(r.status)), nil
}

// UnmarshalVT decodes it.
func (r *healthResponse) UnmarshalVT(b []byte) error {
	return fields(b, func(number protowire.Number, f field) {
		if number == 1 {
			r.status = status(f.number)
		}
	})
}

// MarshalJSON encodes it in the JSON of Protocol Buffers, as {"status":"SERVING"}.
func (r *healthResponse) MarshalJSON() ([]byte, error) {
	names := map[status]string{healthy: "SERVING", unhealthy: "NOT_SERVING", noSuchService: "SERVICE_UNKNOWN"}
	return json.Marshal(map[string]string{"status": names[r.status]})
}

// field is a field of a message: a number, or bytes.
type field struct {
	number uint64
	bytes  []byte
}

// textOf returns the field's text if number is the wanted one, else old.
func (f field) textOf(number, want protowire.Number, old string) string {
	if number == want {
		return string(f.bytes)
	}
	return old
}

// fields calls f with each field of a message.
func fields(b []byte, f func(protowire.Number, field)) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		b = b[n:]
		var value field
		switch kind {
		case protowire.VarintType:
			value.number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			value.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("field %d: %w", number, protowire.ParseError(n))
		}
		b = b[n:]
		f(number, value)
	}
	return nil
}

// appendText appends a string field, nothing for "".
func appendText(dst []byte, number protowire.Number, s string) []byte {
	if s == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, number, protowire.BytesType), s)
}

// appendBytes appends a field of bytes or a message.
func appendBytes(dst []byte, number protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(dst, number, protowire.BytesType), b)
}

func appendNumber(dst []byte, number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, number, protowire.VarintType), v)
}
