package introspect

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	grpcreflection "google.golang.org/grpc/reflection"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/cmd/tandem/internal/services"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

func listen(t *testing.T) (net.Listener, tandem.Endpoint) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln, tandem.Endpoint{Transport: "tcp", Address: ln.Addr().String()}
}

func serve(t *testing.T, opts ...server.Option) tandem.Endpoint {
	t.Helper()
	srv := server.New(opts...)
	_, err := web.RegisterHealth(srv)
	if err := errors.Join(err, web.RegisterReflection(srv), services.Register(srv)); err != nil {
		t.Fatal(err)
	}
	ln, at := listen(t)
	go srv.ServeListener(ln)
	t.Cleanup(func() { _ = srv.Close() })
	return at
}

// lines returns the methods as text.
func lines(methods []Method) string {
	var list []string
	for _, m := range methods {
		list = append(list, m.Name+" "+m.Kind+" "+m.Request.String()+" "+m.Response.String())
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

const (
	status  = `"UNKNOWN" | "SERVING" | "NOT_SERVING" | "SERVICE_UNKNOWN"`
	ofCheck = `grpc.health.v1.Health.Check unary {service: string} {status: ` + status + `}`
	ofWatch = `grpc.health.v1.Health.Watch server stream {service: string} {status: ` + status + `}`
)

func TestMethods(t *testing.T) {
	at := serve(t, server.WithProtocols(web.New(web.WithPages())))
	methods, err := Methods(t.Context(), at, Access{})
	text := lines(methods)
	for _, want := range []string{
		"Arith.Div unary [integer, integer] [integer, integer]\n",
		"Arith.Mul unary {A: integer, B: integer} {C: integer}\n",
		"Hello.Say unary {Answer: string, Letter: string, Name: string} {Answer: string",
		ofWatch,
	} {
		if err != nil || !strings.Contains(text, want) {
			t.Errorf("%v, got\n%s\nwant %s", err, text, want)
		}
	}
}

// TestReflectionOfGRPC asks a server of grpc-go.
func TestReflectionOfGRPC(t *testing.T) {
	ln, at := listen(t)
	srv := grpc.NewServer()
	healthpb.RegisterHealthServer(srv, health.NewServer())
	grpcreflection.Register(srv)
	go srv.Serve(ln)
	defer srv.Stop()
	methods, err := Methods(t.Context(), at, Access{})
	if text := lines(methods); err != nil || !strings.Contains(text, ofCheck) || !strings.Contains(text, ofWatch) {
		t.Errorf("%v, got\n%s", err, text)
	}
}

func TestSilentServers(t *testing.T) {
	none := serve(t)
	ln, closed := listen(t)
	ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := Methods(ctx, none, Access{}); !errors.Is(err, ErrSilent) {
		t.Errorf("a server without HTTP: %v", err)
	}
	if _, err := Methods(ctx, closed, Access{}); err == nil || errors.Is(err, ErrSilent) {
		t.Errorf("none: %v", err)
	}
}

// TestRecursive: a type that contains itself, and types that would grow without end.
func TestRecursive(t *testing.T) {
	definitions := map[string]any{
		"Tree": map[string]any{"type": "object", "properties": map[string]any{"left": map[string]any{"$ref": "#/x/Tree"}}},
	}
	wide := map[string]any{}
	for i := range 20 {
		next := map[string]any{}
		for j := range 20 {
			next[string(rune('a'+j))] = map[string]any{"$ref": "#/x/" + string(rune('A'+i+1))}
		}
		wide[string(rune('A'+i))] = map[string]any{"type": "object", "properties": next}
	}
	tree := (&inliner{definitions: definitions}).inline(map[string]any{"$ref": "#/x/Tree"}, nil)
	if text := typeText(tree, 0); text != "{left: Tree}" {
		t.Errorf("got %s", text)
	}
	in := &inliner{definitions: wide}
	in.inline(map[string]any{"$ref": "#/x/A"}, nil)
	if in.nodes > 100*maxNodes {
		t.Errorf("%d nodes", in.nodes)
	}
}

func TestSchemaText(t *testing.T) {
	for _, c := range []struct {
		schema Schema
		want   string
	}{
		{nil, "any"},
		{Schema{"type": "string", "format": "date-time"}, "date-time"},
		{Schema{"type": []any{"null", "boolean"}}, "boolean"},
		{Schema{"type": "array", "items": map[string]any{"type": "number"}}, "number[]"},
		{Schema{"type": "object", "additionalProperties": map[string]any{"type": "string"}}, "{*: string}"},
		{Schema{"oneOf": []any{map[string]any{"type": "null"}, map[string]any{"type": "string"}, map[string]any{"type": "integer"}}}, "string | integer"},
		{Schema{"type": "object"}, "{}"},
		{Schema{"title": "Odd"}, "Odd"},
	} {
		if got := c.schema.String(); got != c.want {
			t.Errorf("%v: got %s, want %s", c.schema, got, c.want)
		}
	}
	lines := Schema{"type": "object", "properties": map[string]any{"B": map[string]any{"type": "integer"}, "A": map[string]any{}}}.Fields("request")
	if got := strings.Join(lines, "|"); got != "request:|  A: any|  B: integer" {
		t.Errorf("got %s", got)
	}
}
