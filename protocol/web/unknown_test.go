package web_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/protocol/web"
	"github.com/tandem-rpc/tandem/server"
)

func (w *webTest) registerPairs() {
	w.must(w.srv.RegisterFunc("Sum", func(p Pair) int { return p.A + p.B }, server.MethodSafe()))
	w.must(w.srv.RegisterFunc("Several", func(p, q Pair) int { return p.A + q.B }))
	w.must(w.srv.RegisterFunc("test.v1.Text.Name", func(v *descriptorpb.EnumValueDescriptorProto) (string, error) {
		return v.GetName(), nil
	}))
	w.must(w.srv.RegisterFunc("test.v1.Text.Options", func(v *descriptorpb.FieldOptions) (string, error) { return v.GetCtype().String(), nil }))
	w.must(server.HandleStream(w.srv, "Numbers.Count", count))
}

func TestUnknownFields(t *testing.T) {
	const refused = `{"code":"invalid_argument","message":"arguments of %s: %s"}`
	var log bytes.Buffer
	for mode, u := range map[string]web.UnknownFields{"ignore": web.IgnoreUnknown, "warn": web.WarnUnknown, "refuse": web.RefuseUnknown} {
		w := newWebTest(t, web.New(web.WithUnknownFields(u)), server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		w.registerPairs()
		for _, c := range []struct{ path, body, want, strict string }{
			{"/Sum", `{"A":1,"B":2}`, "3", ""},
			{"/Sum", `{"A":1,"C":2,"B":2}`, "3", fmt.Sprintf(refused, "Sum", `codec json: decoding into *web_test.Pair: unknown field \"C\"`)},
			{"/Several", `[{"A":1},{"B":2,"D":1}]`, "3", fmt.Sprintf(refused, "Several", `argument 2: unknown field \"D\"`)},
			{"/test.v1.Text/Name", `{"name":"a","nome":"b"}`, `"a"`, fmt.Sprintf(refused, "test.v1.Text.Name", `codec json: decoding into *descriptorpb.EnumValueDescriptorProto: unknown field \"nome\"`)},
			{"/test.v1.Text/Name", `{"name":"a","options":{"E":{}}}`, `"a"`, fmt.Sprintf(refused, "test.v1.Text.Name", `codec json: decoding into *descriptorpb.EnumValueDescriptorProto: unknown field \"E\"`)},
			{"/test.v1.Text/Options", `{"ctype":"NEW"}`, `"STRING"`, "NEW"},
		} {
			for range 3 {
				got := w.do(w.h1, "POST "+c.path, asJSON, c.body)
				switch {
				case mode == "refuse" && c.strict != "":
					if got.StatusCode != http.StatusBadRequest || !strings.Contains(got.Body, c.strict) {
						t.Errorf("%s: %s: %d %s", mode, c.body, got.StatusCode, got.Body)
					}
				case got.StatusCode != http.StatusOK || got.Body != c.want:
					t.Errorf("%s: %s: %d %s", mode, c.body, got.StatusCode, got.Body)
				}
			}
		}
		res, err := w.ask(w.h2, "POST /Numbers/Count", lines, asJSON, `{"From":1,"To":1}`)
		w.must(err)
		w.must(res.Body.Close())
		if (mode == "refuse") != (res.StatusCode == http.StatusBadRequest) {
			t.Errorf("%s: a stream: %d", mode, res.StatusCode)
		}
	}
	for _, want := range []string{"method=Sum field=C", "method=Several field=D", "method=test.v1.Text.Name field=nome", "method=test.v1.Text.Name field=E", "method=Numbers.Count field=To"} {
		if n := strings.Count(log.String(), want+"\n"); n != 1 {
			t.Errorf("%d times %q: %s", n, want, log.String())
		}
	}
	if n := strings.Count(log.String(), "field="); n != 5 {
		t.Errorf("%d lines: %s", n, log.String())
	}
}

// Clients choose the names of fields, so only so many are remembered.
func TestUnknownFieldsAreBounded(t *testing.T) {
	var log bytes.Buffer
	w := newWebTest(t, web.New(web.WithUnknownFields(web.WarnUnknown)), server.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	w.registerPairs()
	for i := range 1100 {
		if got := w.do(w.h1, "POST /Sum", asJSON, fmt.Sprintf(`{"A":1,"f%d%s":1}`, i, strings.Repeat("x", 200))); got.Body != "1" {
			t.Fatal(got)
		}
	}
	if n := strings.Count(log.String(), "field="); n != 1000 || strings.Contains(log.String(), strings.Repeat("x", 100)) {
		t.Errorf("%d lines", n)
	}
}

// Calls of gRPC with JSON are checked, too.
func TestUnknownFieldsOverGRPC(t *testing.T) {
	w := newWebTest(t, web.New(web.WithUnknownFields(web.RefuseUnknown)))
	w.registerPairs()
	w.each(func(t *testing.T, c *http.Client, opts ...connect.ClientOption) {
		_, err := newClient[descriptorpb.FieldDescriptorProto, text](c, "test.v1.Text/Name", opts...).CallUnary(t.Context(), connect.NewRequest(&descriptorpb.FieldDescriptorProto{Label: descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()}))
		isJSON := strings.Contains(t.Name(), "json")
		if got := strings.Contains(fmt.Sprint(err), `unknown field "label"`); got != isJSON || isJSON && connect.CodeOf(err) != connect.Code(tandem.InvalidArgument) {
			t.Error(err)
		}
	})
}
