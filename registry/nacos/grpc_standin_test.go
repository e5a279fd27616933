package nacos

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem/registry/nacos/internal/standin"
)

// grpcStandIn does what the gRPC of a real server was seen to do: it knows a connection a moment
// after its setup, keeps one instance of each service for a connection, and loses it with that.
type grpcStandIn struct {
	t     testing.TB
	mu    sync.Mutex
	conns map[net.Conn]*standInConn
}

type standInConn struct {
	known      bool
	instances  map[string]json.RawMessage // by service
	subscribed map[string]bool
	push       chan payload
}

type connKey struct{}

// startGRPCStandIn starts the stand-ins for HTTP and gRPC.
func startGRPCStandIn(t *testing.T) grpcBackend {
	t.Helper()
	web := httptest.NewServer(&standin.Server{Lag: 30 * time.Millisecond, Swaps: true})
	t.Cleanup(web.Close)
	s := &grpcStandIn{t: t, conns: map[net.Conn]*standInConn{}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: s, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	srv.Protocols.SetUnencryptedHTTP2(true)
	srv.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns[conn] = &standInConn{instances: map[string]json.RawMessage{}, subscribed: map[string]bool{}, push: make(chan payload, 1000)}
		return context.WithValue(ctx, connKey{}, conn)
	}
	srv.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			s.lose(conn)
		}
	}
	var group sync.WaitGroup
	group.Go(func() { _ = srv.Serve(ln) })
	t.Cleanup(group.Wait)
	t.Cleanup(func() { srv.Close() })
	return grpcBackend{web.Listener.Addr().String(), ln.Addr().String(), func(t testing.TB) *backend {
		b := &backend{direct: web.Listener.Addr().String(), ttl: 3 * time.Second, within: 30 * time.Second, swaps: true}
		b.open(t)
		return b
	}, true}
}

// lose forgets a connection and its instances.
func (s *grpcStandIn) lose(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.conns[conn]; c != nil {
		delete(s.conns, conn)
		for service := range c.instances {
			s.notify(service)
		}
	}
}

// service returns the serviceInfo of a service. The mutex is held.
func (s *grpcStandIn) service(name string) json.RawMessage {
	hosts := []json.RawMessage{}
	for _, c := range s.conns {
		if in := c.instances[name]; in != nil {
			hosts = append(hosts, in)
		}
	}
	slices.SortFunc(hosts, func(a, b json.RawMessage) int { return cmp.Compare(string(a), string(b)) })
	return json.RawMessage(text(map[string]any{"name": name, "hosts": hosts}))
}

// notify sends a service to its subscribers. The mutex is held.
func (s *grpcStandIn) notify(name string) {
	body := []byte(text(map[string]any{"requestId": "1", "serviceInfo": s.service(name)}))
	for _, c := range s.conns {
		if c.subscribed[name] {
			c.push <- payload{kind: "NotifySubscriberRequest", body: body}
		}
	}
}

func (s *grpcStandIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn := r.Context().Value(connKey{}).(net.Conn)
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Trailer", "Grpc-Status")
	if r.URL.Path == streamMethod {
		s.stream(w, r, conn)
		return
	}
	p, err := readFrame(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer := payload{kind: "Response", body: []byte(text(s.answer(conn, p)))}
	_, _ = w.Write(answer.frame())
	w.Header().Set("Grpc-Status", "0")
}

// stream takes the setup, and sends what is to be sent until the connection ends.
func (s *grpcStandIn) stream(w http.ResponseWriter, r *http.Request, conn net.Conn) {
	p, err := readFrame(r.Body)
	s.mu.Lock()
	c := s.conns[conn]
	s.mu.Unlock()
	if err != nil || c == nil || p.kind != "ConnectionSetupRequest" {
		return
	}
	time.Sleep(5 * time.Millisecond) // the real server knows it a little later, too
	s.mu.Lock()
	c.known = true
	s.mu.Unlock()
	for {
		select {
		case p := <-c.push:
			if _, err := w.Write(p.frame()); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			if answer, err := readFrame(r.Body); err != nil || answer.kind != "NotifySubscriberResponse" {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

// answer returns the response to a request.
func (s *grpcStandIn) answer(conn net.Conn, p *payload) map[string]any {
	var request struct {
		Namespace   string          `json:"namespace"`
		GroupName   string          `json:"groupName"`
		ServiceName string          `json:"serviceName"`
		Type        string          `json:"type"`
		Instance    json.RawMessage `json:"instance"`
	}
	if err := json.Unmarshal(p.body, &request); err != nil {
		return map[string]any{"resultCode": 500, "message": err.Error()}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.conns[conn]
	name := fmt.Sprintf("%s/%s@@%s", request.Namespace, request.GroupName, request.ServiceName)
	ok := map[string]any{"resultCode": 200}
	switch {
	case c == nil || !c.known:
		return map[string]any{"resultCode": 500, "errorCode": 301, "message": "Connection is unregistered."}
	case p.kind == "InstanceRequest" && request.Type == "registerInstance":
		c.instances[name] = request.Instance
		s.notify(name)
	case p.kind == "InstanceRequest":
		delete(c.instances, name)
		s.notify(name)
	case p.kind == "SubscribeServiceRequest":
		c.subscribed[name] = true
		ok["serviceInfo"] = s.service(name)
	case p.kind == "ServiceQueryRequest":
		ok["serviceInfo"] = s.service(name)
	}
	return ok
}
