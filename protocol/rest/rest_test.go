package rest_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bufbuild/protocompile"
	"go.uber.org/goleak"
	_ "google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/rest"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is the time limit of a request.
const patience = time.Minute

// compile links a definition into the test, with the imports that every definition here needs.
func compile(name, text string) (protoreflect.FileDescriptor, error) {
	text = `syntax = "proto3";
		package ` + strings.TrimSuffix(name, ".proto") + `;
		import "google/api/annotations.proto";
		import "google/protobuf/duration.proto";
		import "google/protobuf/empty.proto";
		import "google/protobuf/field_mask.proto";
		import "google/protobuf/timestamp.proto";
		import "google/protobuf/wrappers.proto";
	` + text
	if known, err := protoregistry.GlobalFiles.FindFileByPath(name); err == nil { // by an earlier run, with -count
		return known, nil
	}
	sources := protocompile.ResolverFunc(func(path string) (protocompile.SearchResult, error) {
		if path == name {
			return protocompile.SearchResult{Source: strings.NewReader(text)}, nil
		}
		d, err := protoregistry.GlobalFiles.FindFileByPath(path)
		return protocompile.SearchResult{Desc: d}, err
	})
	files, err := (&protocompile.Compiler{Resolver: sources}).Compile(context.Background(), name)
	if err != nil {
		return nil, err
	}
	return files[0], protoregistry.GlobalFiles.RegisterFile(files[0])
}

// library is a definition with a rule of each form.
var library = sync.OnceValues(func() (protoreflect.FileDescriptor, error) {
	return compile("test.library.v1.proto", `
	enum Genre { NONE = 0; POETRY = 1; }
	message Author { string first_name = 1; int32 born = 2; Author friend = 3; }
	message Book {
		string name = 1;
		string title = 2;
		Genre genre = 3;
		repeated Genre genres = 4;
		Author author = 5;
		repeated string tags = 6;
		bytes cover = 7;
		google.protobuf.Timestamp printed = 8;
		google.protobuf.Duration reading = 9;
		google.protobuf.StringValue note = 10;
		google.protobuf.Int64Value pages = 11;
		google.protobuf.FieldMask mask = 12;
		uint64 serial = 13;
		double weight = 14;
		bool lent = 15;
		oneof place { string room = 16; int32 floor = 17; }
		map<string, string> labels = 18;
		repeated Author authors = 19;
		repeated google.protobuf.Timestamp reprints = 20;
		float price = 21;
		optional sint32 rank = 22;
	}
	message BookOf { Book book = 1; bool check = 2; string shelf = 3; repeated int64 numbers = 4; }
	message Count { int64 total = 1; Book last = 2; repeated string names = 3; map<string, int32> by = 4; }
	service Library {
		rpc Get(Book) returns (Book) { option (google.api.http) = {
			get: "/v1/{name=shelves/*/books/*}" additional_bindings { get: "/v1/books/{author.first_name}/{genre}" } additional_bindings { get: "/v1/by/{printed}/{pages}/{rank}" } }; }
		rpc Create(Book) returns (Book) { option (google.api.http) = { post: "/v1/{name=shelves/*}/books" body: "*" }; }
		rpc Update(BookOf) returns (BookOf) { option (google.api.http) = { patch: "/v1/{book.name=shelves/*/books/*}" body: "book" additional_bindings { put: "/v1/numbers" body: "numbers" } additional_bindings { put: "/v1/shelf" body: "shelf" } }; }
		rpc Delete(Book) returns (Book) { option (google.api.http).delete = "/v1/{name=shelves/*/books/*}"; }
		rpc Merge(Book) returns (Count) { option (google.api.http) = { post: "/v1/{name=shelves/*}:merge" body: "*" response_body: "total" additional_bindings { get: "/v1/{name=shelves/*}:last" response_body: "last" } additional_bindings { get: "/v1/{name=shelves/*}:names" response_body: "names" } additional_bindings { get: "/v1/{name=shelves/*}:by" response_body: "by" } }; }
		rpc Files(Book) returns (Book) { option (google.api.http) = { get: "/v1/files/{name=**}" additional_bindings { get: "/v1/files/{name=**}:raw" } additional_bindings { custom: { kind: "PURGE" path: "/v1/files/{name=**}" } } additional_bindings { custom: { kind: "*" path: "/v1/any/*" } } }; }
		rpc Follow(Book) returns (stream Book) { option (google.api.http).get = "/v1/{name=shelves/*}:follow"; }
		rpc Sum(stream Book) returns (Book) { option (google.api.http) = { post: "/v1/{name=shelves/*}:sum" body: "*" }; }
		rpc Own(Book) returns (Book);
	}`)
})

// call is what every method of the test does: it answers with its request, or fails with what the
// title says.
func call(d protoreflect.MethodDescriptor) func(context.Context, *tandem.Call) error {
	return func(_ context.Context, call *tandem.Call) error {
		in, out := dynamicpb.NewMessage(d.Input()), dynamicpb.NewMessage(d.Output())
		if err := call.Body.Decode(in); err != nil {
			return err
		}
		if title := d.Input().Fields().ByName("title"); title != nil && in.Get(title).String() == "missing" {
			return tandem.Errorf(tandem.NotFound, "no such book")
		}
		if d.Input() == d.Output() {
			out = in
		}
		if total := d.Output().Fields().ByName("total"); total != nil {
			out.Set(total, protoreflect.ValueOfInt64(7))
			if in.Get(d.Input().Fields().ByName("tags")).List().Len() > 0 {
				out.Set(d.Output().Fields().ByName("last"), protoreflect.ValueOfMessage(in))
			}
		}
		return call.Body.Encode(out)
	}
}

// follow answers each message, or all of them with the last if only the client streams.
func follow(d protoreflect.MethodDescriptor, stream tandem.MessageStream) error {
	last := dynamicpb.NewMessage(d.Input())
	n := 0
	for {
		in := dynamicpb.NewMessage(d.Input())
		err := stream.RecvMsg(in)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		last = in
		for range 2 {
			if n++; !d.IsStreamingClient() {
				if err := stream.SendMsg(in); err != nil {
					return err
				}
			}
		}
	}
	if d.IsStreamingClient() {
		last.Set(d.Input().Fields().ByName("title"), protoreflect.ValueOfString(strings.Repeat("x", n/2)))
		return stream.SendMsg(last)
	}
	return nil
}

// newLibrary serves the library, and returns a client for its HTTP version.
func newLibrary(t *testing.T, opts ...web.Option) (h1, h2 *http.Client) {
	t.Helper()
	file, err := library()
	must(t, err)
	routes, err := rest.New("test.library.v1.Library")
	must(t, err)
	srv := server.New(server.WithProtocols(web.New(append(opts, web.WithRouter(routes))...)), server.WithLogger(slog.New(slog.DiscardHandler)))
	methods := file.Services().Get(0).Methods()
	for i := range methods.Len() {
		m := methods.Get(i)
		f := tandem.Func(call(m))
		if m.IsStreamingClient() || m.IsStreamingServer() {
			must(t, server.HandleStream(srv, string(m.FullName()), func(_ context.Context, s *tandem.Stream[any, any]) error { return follow(m, s) }))
			continue
		}
		must(t, srv.RegisterFunc(string(m.FullName()), f))
	}
	network := transport.NewMemory()
	ln, err := network.Listen(t.Context(), "a")
	must(t, err)
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	client := func(speaks func(*http.Protocols, bool)) *http.Client {
		tr := &http.Transport{Protocols: new(http.Protocols), DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return network.Dial(ctx, "a") }}
		speaks(tr.Protocols, true)
		t.Cleanup(tr.CloseIdleConnections)
		return &http.Client{Transport: tr, Timeout: patience}
	}
	t.Cleanup(func() {
		must(t, srv.Close())
		if err := <-served; !errors.Is(err, server.ErrServerClosed) {
			t.Error(err)
		}
	})
	return client((*http.Protocols).SetHTTP1), client((*http.Protocols).SetUnencryptedHTTP2)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ask makes a request; what is "POST /path".
func ask(t *testing.T, c *http.Client, what, body string, header ...string) (status int, text string) {
	t.Helper()
	verb, path, _ := strings.Cut(what, " ")
	req, err := http.NewRequestWithContext(t.Context(), verb, "http://tandem.test"+path, strings.NewReader(body))
	must(t, err)
	if body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	if body != "" || verb == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := c.Do(req)
	must(t, err)
	b, err := io.ReadAll(res.Body)
	must(t, errors.Join(err, res.Body.Close()))
	return res.StatusCode, strings.ReplaceAll(strings.TrimSpace(string(b)), ": ", ":")
}

func TestRoutes(t *testing.T) {
	h1, h2 := newLibrary(t)
	for _, c := range []struct {
		what, body string
		status     int
		want       string
	}{
		{"GET /v1/shelves/1/books/2", "", 200, `{"name":"shelves/1/books/2"}`},
		{"GET /v1/shelves/1/books/a%20b?title=T&genre=POETRY&genres=1&genres=POETRY&author.first_name=A&author.friend.born=3&tags=x&tags=y", "", 200,
			`{"name":"shelves/1/books/a b","title":"T","genre":"POETRY","genres":["POETRY","POETRY"],"author":{"firstName":"A","friend":{"born":3}},"tags":["x","y"]}`},
		{"GET /v1/shelves/1/books/2?cover=-_8%3D&printed=2026-01-02T03:04:05Z&reading=1.5s&note=&pages=7&mask=title,author.firstName", "", 200,
			`{"name":"shelves/1/books/2","cover":"+/8=","printed":"2026-01-02T03:04:05Z","reading":"1.500s","note":"","pages":"7","mask":"title,author.firstName"}`},
		{"GET /v1/shelves/1/books/2?serial=18446744073709551615&weight=1e3&lent=true&room=r&reprints=2026-01-02T03:04:05Z&price=-Infinity&author.firstName=B", "", 200,
			`{"name":"shelves/1/books/2","author":{"firstName":"B"},"serial":"18446744073709551615","weight":1000,"lent":true,"room":"r","reprints":["2026-01-02T03:04:05Z"],"price":"-Infinity"}`},
		{"GET /v1/books/Ann/POETRY", "", 200, `{"genre":"POETRY","author":{"firstName":"Ann"}}`},
		{"GET /v1/by/2026-01-02T03:04:05Z/12/-3", "", 200, `{"printed":"2026-01-02T03:04:05Z","pages":"12","rank":-3}`},
		{"POST /v1/shelves/1/books", `{"name":"other","title":"T"}`, 200, `{"name":"shelves/1","title":"T"}`},
		{"POST /v1/shelves/1/books", "", 200, `{"name":"shelves/1"}`},
		{"PATCH /v1/shelves/1/books/2?check=true&numbers=1&numbers=2", `{"title":"T"}`, 200, `{"book":{"name":"shelves/1/books/2","title":"T"},"check":true,"numbers":["1","2"]}`},
		{"PUT /v1/numbers?check=true", ` [1, "2"] `, 200, `{"check":true,"numbers":["1","2"]}`},
		{"PUT /v1/shelf", `"s"`, 200, `{"shelf":"s"}`},
		{"DELETE /v1/shelves/1/books/2", "", 200, `{"name":"shelves/1/books/2"}`},
		{"POST /v1/shelves/1:merge", "{}", 200, `"7"`},
		{"GET /v1/shelves/1:last?tags=x", "", 200, `{"name":"shelves/1","tags":["x"]}`},
		{"GET /v1/shelves/1:last", "", 200, `null`},
		{"GET /v1/shelves/1:names", "", 200, `[]`},
		{"GET /v1/shelves/1:by", "", 200, `{}`},
		{"GET /v1/files/a/b/c", "", 200, `{"name":"a/b/c"}`},
		{"GET /v1/files/a/b:raw", "", 200, `{"name":"a/b"}`},
		{"GET /v1/files/a/b:row", "", 200, `{"name":"a/b:row"}`},
		{"GET /v1/files", "", 200, `{}`},
		{"PURGE /v1/files/a", "", 200, `{"name":"a"}`},
		{"TRACE /v1/any/a", "", 200, `{}`},
		{"POST /test.library.v1.Library/Own", `{"title":"T"}`, 200, `{"title":"T"}`},
		{"POST /test.library.v1.Library/Get", `{"title":"T"}`, 200, `{"title":"T"}`},

		{"GET /v1/shelves/1/books/2?title=missing", "", 404, `{"code":"not_found","message":"no such book"}`},
		{"POST /v1/files/a", "{}", 405, `{"code":"unknown","message":"POST:\"/v1/files/a\" is called by GET, PURGE","status":405,"title":"Method Not Allowed"}`},
		{"GET /v1/none", "", 404, `{"code":"unimplemented","message":"no method at \"/v1/none\""}`},
		{"GET /v1/shelves/1:none", "", 404, `{"code":"unimplemented","message":"no method at \"/v1/shelves/1:none\""}`},
		{"GET /v1/shelves/1/books/2?tilte=T", "", 400, `{"code":"invalid_argument","message":"parameter \"tilte\":test.library.v1.Book has no field \"tilte\""}`},
		{"GET /v1/shelves/1/books/2?name=x", "", 400, `{"code":"invalid_argument","message":"parameter \"name\":it is in the path"}`},
		{"GET /v1/shelves/1/books/2?title=a&title=b", "", 400, `{"code":"invalid_argument","message":"parameter \"title\":it has 2 values, one is wanted"}`},
		{"GET /v1/shelves/1/books/2?title=%zz", "", 400, `{"code":"invalid_argument","message":"invalid URL escape \"%zz\""}`},
		{"GET /v1/files" + strings.Repeat("/a", 254), "", 200, `{"name":"a` + strings.Repeat("/a", 253) + `"}`},
		{"GET /v1/files" + strings.Repeat("/a", 255), "", 404, ""},
		{"GET /v1/shelves/1/books/2?title.x=a", "", 400, `{"code":"invalid_argument","message":"parameter \"title.x\":test.library.v1.Book.title is no message with fields"}`},
		{"GET /v1/shelves/1/books/2?authors=a", "", 400, `{"code":"invalid_argument","message":"parameter \"authors\":test.library.v1.Book.authors is no single value, nor a list of them"}`},
		{"GET /v1/shelves/1/books/2?labels=a", "", 400, `{"code":"invalid_argument","message":"parameter \"labels\":test.library.v1.Book.labels is no single value, nor a list of them"}`},
		{"GET /v1/shelves/1/books/2?lent=1", "", 400, `{"code":"invalid_argument","message":"parameter \"lent\":\"1\" is neither true nor false"}`},
		{"GET /v1/shelves/1/books/2?serial=-1", "", 400, `{"code":"invalid_argument","message":"parameter \"serial\":\"-1\" is no uint64"}`},
		{"GET /v1/shelves/1/books/2?weight=0x1p4", "", 400, `{"code":"invalid_argument","message":"parameter \"weight\":\"0x1p4\" is no double"}`},
		{"GET /v1/shelves/1/books/2?title=%FF", "", 400, `{"code":"invalid_argument","message":"parameter \"title\":it is not UTF-8"}`},
		{"GET /v1/shelves/1/books/2?printed=now", "", 400, `{"code":"invalid_argument","message":"parameter \"printed\":\"now\" is no google.protobuf.Timestamp"}`},
		{"GET /v1/shelves/1/books/2?cover=*", "", 400, `{"code":"invalid_argument","message":"parameter \"cover\":\"*\" is not base64"}`},
		{"GET /v1/books/Ann/PROSE", "", 400, `{"code":"invalid_argument","message":"genre in the path:\"PROSE\" is no value of test.library.v1.Genre"}`},
		{"GET /v1/shelves/1/books/2?" + strings.Repeat("author.friend.", 20) + "born=1", "", 400, ""},
		{"POST /v1/shelves/1/books?title=T", "{}", 400, `{"code":"invalid_argument","message":"parameter \"title\":the body is the whole message"}`},
		{"PUT /v1/numbers", `[1],"check":true`, 400, `{"code":"invalid_argument","message":"the body is not JSON"}`},
		{"PUT /v1/numbers?numbers=1", `[1]`, 400, `{"code":"invalid_argument","message":"parameter \"numbers\":the body is this field"}`},
		{"DELETE /v1/shelves/1/books/2", "{}", 400, `{"code":"invalid_argument","message":"there is a body, and the route takes none"}`},
	} {
		for name, client := range map[string]*http.Client{"HTTP/1.1": h1, "HTTP/2": h2} {
			if status, got := ask(t, client, c.what, c.body); status != c.status || c.want != "" && got != c.want && strings.ReplaceAll(got, ", ", ",") != c.want {
				t.Errorf("%s %s %s: %d %s, want %d %s", name, c.what, c.body, status, got, c.status, c.want)
			}
		}
	}
}

// Of a group, one field may be set.
func TestOneofs(t *testing.T) {
	h1, _ := newLibrary(t)
	status, got := ask(t, h1, "GET /v1/shelves/1/books/2?room=r&floor=2", "")
	if status != http.StatusBadRequest || !strings.Contains(got, "more than one of test.library.v1.Book.place is set") {
		t.Errorf("%d %s", status, got)
	}
}

func TestRoutesOfStreams(t *testing.T) {
	h1, h2 := newLibrary(t)
	for _, client := range []*http.Client{h1, h2} {
		for _, c := range []struct {
			what, body string
			header     []string
			want       string
		}{
			{"GET /v1/shelves/1:follow?title=T", "", nil, `{"name":"shelves/1","title":"T"}` + "\n" + `{"name":"shelves/1","title":"T"}`},
			{"GET /v1/shelves/1:follow?title=T", "", []string{"Accept", "text/event-stream"}, strings.Repeat(`data:{"name":"shelves/1","title":"T"}`+"\n\n", 2) + "event:end\ndata:{}"},
			{"POST /v1/shelves/1:sum", "{}\n{}\n{\"name\":\"x\"}", []string{"Content-Type", "application/x-ndjson"}, `{"name":"shelves/1","title":"xxx"}`},
		} {
			if status, got := ask(t, client, c.what, c.body, c.header...); status != http.StatusOK || strings.ReplaceAll(got, ", ", ",") != strings.ReplaceAll(c.want, ", ", ",") {
				t.Errorf("%s: %d %q, want %q", c.what, status, got, c.want)
			}
		}
	}
}

// A page of another site can't call by POST unless its browser asks first, as JSON makes it do.
func TestRoutesNeedJSON(t *testing.T) {
	h1, _ := newLibrary(t, web.WithCORS(web.CORS{Origins: []string{"https://shop.example"}}))
	for what, contentType := range map[string]string{"POST /v1/shelves/1/books": "text/plain", "POST /v1/shelves/1:merge": "", "PUT /v1/shelf": "application/x-www-form-urlencoded"} {
		if status, got := ask(t, h1, what, `{}`, "Content-Type", contentType); status != http.StatusUnsupportedMediaType {
			t.Errorf("%s: %d %s", what, status, got)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, "http://tandem.test/v1/shelf", http.NoBody)
	must(t, err)
	req.Header = http.Header{"Origin": {"https://shop.example"}, "Access-Control-Request-Method": {"PUT"}}
	res, err := h1.Do(req)
	must(t, err)
	must(t, res.Body.Close())
	if verbs := strings.Split(res.Header.Get("Access-Control-Allow-Methods"), ", "); !slices.Contains(verbs, "PUT") || !slices.Contains(verbs, "PATCH") {
		t.Errorf("%q", verbs)
	}
}

func TestUnknownFieldsOfBodies(t *testing.T) {
	h1, _ := newLibrary(t, web.WithUnknownFields(web.RefuseUnknown))
	for what, body := range map[string]string{"POST /v1/shelves/1/books": `{"tilte":"T"}`, "PATCH /v1/shelves/1/books/2": `{"tilte":"T"}`} {
		if status, got := ask(t, h1, what, body); status != http.StatusBadRequest || !strings.Contains(got, `unknown field \"tilte\"`) {
			t.Errorf("%s: %d %s", what, status, got)
		}
	}
}
