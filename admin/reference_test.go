package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/admin"
	"github.com/tandem-rpc/tandem/client"
	"github.com/tandem-rpc/tandem/codec"
	"github.com/tandem-rpc/tandem/server"
	"github.com/tandem-rpc/tandem/transport"
)

// TestReference compares the reference, in English and Chinese, with the code: methods, roles,
// and the fields of requests and answers in their order.
func TestReference(t *testing.T) {
	want := reference(t)
	for _, name := range []string{"../docs/reference/admin.md", "../docs/zh/reference/admin.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got := documented(string(text))
		for _, line := range want {
			if !slices.Contains(got, line) {
				t.Errorf("%s lacks %s", name, line)
			}
		}
		for _, line := range got {
			if !slices.Contains(want, line) {
				t.Errorf("%s has %s, which the code does not have", name, line)
			}
		}
	}
}

var (
	methodRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `(\\w+)` \\| (.*?) \\| (.*?) \\|")
	typeTitle = regexp.MustCompile(`(?m)^### (\w+)$`)
	fieldRow  = regexp.MustCompile("(?m)^\\| `(\\w+)` \\|")
	typeLink  = regexp.MustCompile(`\[(\w+)\]`)
)

// documented returns a line for each method and each type of a page.
func documented(text string) (lines []string) {
	for _, m := range methodRow.FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.Join([]string{"method", m[1], m[2], linked(m[3]), linked(m[4])}, " "))
	}
	titles := typeTitle.FindAllStringSubmatchIndex(text, -1)
	for i, at := range titles {
		end := len(text)
		if i+1 < len(titles) {
			end = titles[i+1][0]
		}
		line := "type " + text[at[2]:at[3]]
		for _, m := range fieldRow.FindAllStringSubmatch(text[at[1]:end], -1) {
			line += " " + m[1]
		}
		lines = append(lines, line)
	}
	return lines
}

func linked(cell string) string {
	if m := typeLink.FindStringSubmatch(cell); m != nil {
		return m[1]
	}
	return "none"
}

// reference returns the lines that the page must have.
func reference(t *testing.T) (lines []string) {
	roles := leastRoles(t)
	types := map[reflect.Type]bool{}
	a, srv := admin.New(), server.New()
	if err := a.Register(srv); err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	for _, m := range srv.Describe() {
		req, answer := m.In, m.Out
		if m.Kind == tandem.Unary {
			req, answer = m.Args[0], m.Results[0]
		}
		name := strings.TrimPrefix(m.Name, admin.Service+".")
		addTypes(types, req)
		addTypes(types, answer)
		lines = append(lines, strings.Join([]string{"method", name, roles[name].String(), nameOf(req), nameOf(answer)}, " "))
	}
	for typ := range types {
		lines = append(lines, strings.Join(append([]string{"type", typ.Name()}, fieldNames(typ)...), " "))
	}
	return lines
}

func nameOf(t reflect.Type) string {
	if t.NumField() == 0 {
		return "none"
	}
	return t.Name()
}

// addTypes adds a type, and those that its fields need, if they are shown as objects.
func addTypes(types map[reflect.Type]bool, t reflect.Type) {
	switch t.Kind() { //nolint:exhaustive // others hold no types
	case reflect.Pointer, reflect.Slice, reflect.Map:
		addTypes(types, t.Elem())
	case reflect.Struct:
		if types[t] || t.NumField() == 0 || t == reflect.TypeFor[time.Time]() {
			return
		}
		types[t] = true
		for _, f := range reflect.VisibleFields(t) {
			if !f.Anonymous && f.IsExported() {
				addTypes(types, f.Type)
			}
		}
	}
}

// fieldNames returns the names that a type has in JSON, those of embedded types included.
func fieldNames(t reflect.Type) (names []string) {
	for f := range t.Fields() {
		if f.Anonymous {
			names = append(names, fieldNames(f.Type)...)
			continue
		}
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() && name != "-" {
			names = append(names, name)
		}
	}
	return names
}

// leastRoles finds out which role each method needs, by calling it with one after the other.
func leastRoles(t *testing.T) map[string]admin.Role {
	role := admin.Role(0) // calls come one after the other
	a := admin.New(admin.WithAuthorizer(func(context.Context) (admin.Role, error) { return role, nil }))
	srv := server.New(server.WithPlugins(a), server.WithCodecs(codec.JSON()), server.WithLogger(slog.New(slog.DiscardHandler)))
	network := transport.NewMemory()
	ln, err := network.Listen(t.Context(), "roles")
	if err := errors.Join(err, a.Register(srv)); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- srv.ServeListener(ln) }()
	c, err := client.Dial("mem://roles", client.WithTransport("mem", network), client.WithCodec(codec.JSON()))
	if err != nil {
		t.Fatal(err)
	}
	least := map[string]admin.Role{}
	for _, m := range srv.Describe() {
		for role = 1; tandem.CodeOf(try(t, c, m)) == tandem.PermissionDenied && role < admin.Administrator; {
			role++
		}
		least[strings.TrimPrefix(m.Name, admin.Service+".")] = role
	}
	if err := errors.Join(c.Close(), srv.Close()); err != nil {
		t.Fatal(err)
	}
	<-served
	return least
}

// try calls a method with an empty request.
func try(t *testing.T, c *client.Client, m *server.Method) error {
	if m.Kind == tandem.Unary {
		_, err := client.Invoke[json.RawMessage](t.Context(), c, m.Name, struct{}{})
		return err
	}
	s, err := c.OpenStream(t.Context(), m.Name)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.SendMsg(admin.TapRequest{For: time.Nanosecond}); err != nil {
		return err
	}
	return s.RecvMsg(new(admin.TapEvent))
}
