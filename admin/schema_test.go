package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/codec/protobuf"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

type parcel struct {
	Weight int64             `json:"weight"`
	Inside []parcel          `json:"inside"`
	Tags   map[string]string `json:"tags"`
}

// defineFeed defines a service of Protocol Buffers, as generated code does.
func defineFeed() error {
	const path = "admin_schema_test.proto"
	if _, err := protoregistry.GlobalFiles.FindFileByPath(path); err == nil {
		return nil // the test runs again
	}
	message := new(".google.protobuf.Timestamp")
	of := func(name string, up, down bool) *descriptorpb.MethodDescriptorProto {
		return &descriptorpb.MethodDescriptorProto{Name: &name, InputType: message, OutputType: message, ClientStreaming: &up, ServerStreaming: &down}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: new(path), Package: new("feed"), Dependency: []string{"google/protobuf/timestamp.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: new("Feed"), Method: []*descriptorpb.MethodDescriptorProto{
			of("Up", true, false), of("Down", false, true), of("Both", true, true),
		}}},
	}, protoregistry.GlobalFiles)
	return errors.Join(err, protoregistry.GlobalFiles.RegisterFile(file))
}

func asText(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSchema(t *testing.T) {
	a, network := admin.New(), transport.NewMemory()
	srv := server.New(server.WithPlugins(a), server.WithCodecs(codec.JSON(), protobuf.Codec()))
	stream := func(context.Context, *tandem.Stream[timestamppb.Timestamp, timestamppb.Timestamp]) error { return nil }
	err := errors.Join(
		defineFeed(), a.Register(srv),
		server.Handle(srv, "Post.Send", func(_ context.Context, p *parcel) (*bool, error) { return new(p.Weight > 0), nil }, server.MethodSafe()),
		srv.RegisterFunc("Post.Route", func(from string, stops uint8) (string, int) { return from, int(stops) }),
		srv.RegisterFunc("Post.Stop", func() {}),
		server.HandleStream(srv, "Post.Follow", func(context.Context, *tandem.Stream[string, parcel]) error { return nil }),
		server.Handle(srv, "Clock.Add", func(context.Context, *durationpb.Duration) (*timestamppb.Timestamp, error) {
			return timestamppb.Now(), nil
		}),
		server.HandleStream(srv, "feed.Feed.Up", stream), server.HandleStream(srv, "feed.Feed.Down", stream), server.HandleStream(srv, "feed.Feed.Both", stream),
	)
	ln, listened := network.Listen(t.Context(), "post")
	if err := errors.Join(err, listened); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://post", client.WithTransport("mem", network), client.WithCodec(codec.JSON()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(c.Close(), srv.Close()); err != nil {
			t.Error(err)
		}
		<-served
	}()
	request := func(req admin.SchemaRequest) *admin.Schema {
		s, err := client.Invoke[admin.Schema](t.Context(), c, admin.Service+".Schema", req)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	ask := func(service string) *admin.Schema { return request(admin.SchemaRequest{Service: service}) }
	const parcels = `{"$ref":"#/definitions/admin_test.parcel"}`
	want := []admin.MethodSchema{
		{Method: "Post.Follow", Kind: "bidirectional", Arguments: 1, Request: json.RawMessage(`{"type":["string","null"]}`), Response: json.RawMessage(parcels)},
		{
			Method: "Post.Route", Kind: "unary", Arguments: 2,
			Request:  json.RawMessage(`{"maxItems":2,"minItems":2,"prefixItems":[{"type":["string","null"]},{"maximum":255,"minimum":0,"type":["integer","null"]}],"type":"array"}`),
			Response: json.RawMessage(`{"maxItems":2,"minItems":2,"prefixItems":[{"type":["string","null"]},{"maximum":9223372036854775807,"minimum":-9223372036854775808,"type":["integer","null"]}],"type":"array"}`),
		},
		{Method: "Post.Send", Kind: "unary", Safe: true, Arguments: 1, Request: json.RawMessage(parcels), Response: json.RawMessage(`{"type":["boolean","null"]}`)},
		{
			Method: "Post.Stop", Kind: "unary", Arguments: 0,
			Request: json.RawMessage(`{"maxProperties":0,"type":["object","null"]}`), Response: json.RawMessage(`{"maxProperties":0,"type":["object","null"]}`),
		},
	}
	s := ask("Post")
	if !reflect.DeepEqual(s.Methods, want) {
		t.Errorf("got  %s\nwant %s", asText(t, s.Methods), asText(t, want))
	}
	var definitions map[string]struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(s.Definitions, &definitions); err != nil || len(definitions) != 1 || len(definitions["admin_test.parcel"].Properties) != 3 {
		t.Errorf("%v, definitions %s", err, s.Definitions)
	}
	if got := ask("Clock").Methods[0]; got.RequestMessage != "google.protobuf.Duration" || got.ResponseMessage != "google.protobuf.Timestamp" {
		t.Errorf("messages of Protocol Buffers: %+v", got)
	}
	kinds := ""
	for _, m := range ask("feed.Feed").Methods {
		kinds += m.Method + " " + m.Kind + "\n"
	}
	if kinds != "feed.Feed.Both bidirectional\nfeed.Feed.Down server stream\nfeed.Feed.Up client stream\n" {
		t.Error(kinds)
	}
	checkDescriptors(t, request)
	if none := ask("No"); len(none.Methods) != 0 || string(none.Definitions) != "{}" {
		t.Errorf("a service that does not exist: %+v", none)
	}
	if all := ask(""); len(all.Methods) < 20 {
		t.Errorf("%d methods in all", len(all.Methods))
	}
}

// checkDescriptors asks for the descriptors of services, which are complete and in order.
func checkDescriptors(t *testing.T, request func(admin.SchemaRequest) *admin.Schema) {
	t.Helper()
	for service, want := range map[string]string{
		"feed.Feed": "google/protobuf/timestamp.proto admin_schema_test.proto",
		"Clock":     "google/protobuf/duration.proto google/protobuf/timestamp.proto",
		"Post":      "", // of Go types
	} {
		var set descriptorpb.FileDescriptorSet
		if err := proto.Unmarshal(request(admin.SchemaRequest{Service: service, Descriptors: true}).Descriptors, &set); err != nil {
			t.Error(err)
		}
		var paths []string
		for _, f := range set.GetFile() {
			paths = append(paths, f.GetName())
		}
		if got := strings.Join(paths, " "); got != want {
			t.Errorf("descriptors of %s: %q, want %q", service, got, want)
		}
		if _, err := protodesc.NewFiles(&set); err != nil {
			t.Errorf("descriptors of %s: %v", service, err)
		}
	}
	if s := request(admin.SchemaRequest{Service: "feed.Feed"}); s.Descriptors != nil {
		t.Error("descriptors without asking for them")
	}
}

// TestSchemaIsBounded asks for more methods than are described at a time.
func TestSchemaIsBounded(t *testing.T) {
	a, network := admin.New(), transport.NewMemory()
	srv := server.New(server.WithPlugins(a), server.WithCodecs(codec.JSON()))
	if err := a.Register(srv); err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		if err := srv.RegisterFunc(fmt.Sprintf("S%d.Do", i), func() {}); err != nil {
			t.Fatal(err)
		}
	}
	ln, err := network.Listen(t.Context(), "many")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://many", client.WithTransport("mem", network), client.WithCodec(codec.JSON()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(c.Close(), srv.Close()); err != nil {
			t.Error(err)
		}
		<-served
	}()
	_, err = client.Invoke[admin.Schema](t.Context(), c, admin.Service+".Schema", admin.SchemaRequest{})
	if tandem.CodeOf(err) != tandem.ResourceExhausted {
		t.Errorf("all methods: %v", err)
	}
	if s, err := client.Invoke[admin.Schema](t.Context(), c, admin.Service+".Schema", admin.SchemaRequest{Service: "S7"}); err != nil || len(s.Methods) != 1 {
		t.Errorf("one service: %+v, %v", s, err)
	}
}
