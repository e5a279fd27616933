package settings_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tandem-rpc/tandem"
	"github.com/tandem-rpc/tandem/internal/settings"
)

func TestText(t *testing.T) {
	type inner struct {
		Share float64
		Pause time.Duration
	}
	type outer struct {
		Name   string
		Inner  inner
		Zero   int
		hidden int
	}
	for _, c := range []struct {
		value any
		want  string
	}{
		{90 * time.Second, "1m30s"},
		{int64(1 << 20), "1048576"},
		{"text", "text"},
		{true, "true"},
		{inner{}, "none"},
		{inner{0.5, time.Second}, "Share 0.5, Pause 1s"},
		{outer{Name: "a", Inner: inner{Share: 1}, hidden: 3}, "Name a, Inner Share 1"},
	} {
		if got := settings.Text(c.value); got != c.want {
			t.Errorf("%#v: %q, want %q", c.value, got, c.want)
		}
	}
}

func TestLists(t *testing.T) {
	name := func(s string) string { return s }
	for got, want := range map[string]string{
		settings.Names([]string{"b", "a"}, name):                "a, b",
		settings.Names(nil, name) + "!":                         "none!",
		settings.Types([]any{1, errors.New("x")}):               "int, *errors.errorString",
		settings.Functions[func()](nil) + "?":                   "none?",
		settings.Functions([]func(int, int) time.Time{}):        "none",
		settings.Functions([]func(error) error{errors.Unwrap}):  "errors.Unwrap",
		settings.Bound(0) + "." + settings.Bound(3*time.Second): "none.3s",
		settings.Switch(true) + settings.Switch(false):          "onoff",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// What one list adds is not seen in another that began alike.
func TestGiven(t *testing.T) {
	given := make(settings.Given, 0, 8)
	given.Add("A")
	given.Add("A")
	other := given
	given.Add("B")
	other.Add("C")
	if given.From("B") != settings.Option || given.From("C") != settings.Default || len(given) != 2 {
		t.Errorf("%q, %q", given, other)
	}
	l := settings.List{Given: given}
	l.Add("A", 1)
	l.Add("Z", time.Second)
	l.AddFrom("B", settings.OrNone(""), "policy 7")
	want := []tandem.Setting{{Name: "A", Value: "1", From: "option"}, {Name: "Z", Value: "1s", From: "default"}, {Name: "B", Value: "none", From: "policy 7"}}
	if !slices.Equal(l.All, want) {
		t.Errorf("%+v", l.All)
	}
}
