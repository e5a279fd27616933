package client_test

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/tandem-rpc/tandem/client"
)

// Calls and streams over another protocol pass the points of plugins as over tandem's own.
func TestPluginsOverAnotherProtocol(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go answerLines(ln)
	defer ln.Close()
	seen := &sightings{}
	c := dial(t, "lines://"+ln.Addr().String(), client.WithProtocols(lines{}), client.WithPlugins(&witness{sightings: seen, name: "w"}))
	if out, err := client.Invoke[string](t.Context(), c, "Text.Upper", "a"); err != nil || *out != "A" {
		t.Fatal(err)
	}
	attempt := []string{
		"before call Text.Upper", "in", "before select", "before request to tcp://" + ln.Addr().String(), "after request <nil>",
		"before response header", "after response header <nil>", "before response body", "after response body A",
	}
	passed(t, seen, append(slices.Clone(attempt), "after call ok"))
	s, err := client.Stream[string, string](t.Context(), c, "Text.Upper")
	if err != nil {
		t.Fatal(err)
	}
	word := "a"
	if err := s.Send(&word); err != nil {
		t.Fatal(err)
	}
	if out, err := s.Recv(); err != nil || *out != "A" {
		t.Fatal(err)
	}
	passed(t, seen, attempt)
	if err := s.CloseSend(); err != nil {
		t.Error(err)
	}
	if _, err := s.Recv(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if last := seen.take(); !slices.Contains(last, "w after call ok") || len(last) != 2 { // the end is known before Recv or after
		t.Errorf("in the end passed %q", last)
	}
}

func passed(t *testing.T, seen *sightings, want []string) {
	t.Helper()
	got := slices.DeleteFunc(seen.take(), func(line string) bool { return strings.HasSuffix(line, " connected") })
	for i := range got {
		got[i] = strings.TrimPrefix(got[i], "w ")
	}
	if !slices.Equal(got, want) {
		t.Errorf("passed\n%q, want\n%q", got, want)
	}
}
