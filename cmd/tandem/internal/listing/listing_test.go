package listing

import (
	"strings"
	"testing"
	"time"
)

type item struct {
	ID     string    `json:"id"`
	State  string    `json:"state"`
	Weight int       `json:"weight"`
	At     time.Time `json:"at,omitzero"`
	Tags   []string  `json:"tags,omitempty"`
}

func example() *List {
	return &List{
		Columns: []Column{{Name: "ID"}, {Name: "STATE", State: true}, {Name: "GROUP", Wide: true}, {Name: "WHY"}},
		Rows: [][]string{
			{"köln-1", "enabled", "canary", ""},
			{"b", "disabled", "", "a\x1b[2Jb\nc"},
		},
		Notes: []string{"2 instances"},
		Value: struct {
			Items []item `json:"items"`
		}{[]item{
			{ID: "1", State: "enabled", Weight: 3, At: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)},
			{ID: "yes", State: "a: b", Tags: []string{"<x>", "null"}},
		}},
	}
}

func TestPrint(t *testing.T) {
	for _, c := range []struct {
		name string
		p    Printer
		want string
	}{
		{"table", Printer{}, "ID      STATE     WHY\nköln-1  enabled   -\nb       disabled  a [2Jb c\n2 instances\n"},
		{"wide", Printer{Format: Wide}, "ID      STATE     GROUP   WHY\nköln-1  enabled   canary  -\nb       disabled  -       a [2Jb c\n2 instances\n"},
		{"color", Printer{Color: true}, "ID      STATE     WHY\nköln-1  \x1b[32menabled\x1b[0m   -\nb       \x1b[31mdisabled\x1b[0m  a [2Jb c\n2 instances\n"},
		{"JSON", Printer{Format: JSON, Color: true}, `{
  "items": [
    {
      "id": "1",
      "state": "enabled",
      "weight": 3,
      "at": "2026-11-21T08:00:00Z"
    },
    {
      "id": "yes",
      "state": "a: b",
      "weight": 0,
      "tags": [
        "<x>",
        "null"
      ]
    }
  ]
}
`},
		{"lines of JSON", Printer{Format: JSON, Stream: true}, `{"items":[{"id":"1","state":"enabled","weight":3,"at":"2026-11-21T08:00:00Z"},{"id":"yes","state":"a: b","weight":0,"tags":["<x>","null"]}]}` + "\n"},
		{"YAML", Printer{Format: YAML}, `items:
  - id: "1"
    state: enabled
    weight: 3
    at: "2026-11-21T08:00:00Z"
  - id: "yes"
    state: 'a: b'
    weight: 0
    tags:
      - <x>
      - "null"
`},
	} {
		var out strings.Builder
		c.p.Out = &out
		if err := c.p.Print(example()); err != nil || out.String() != c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, out.String(), c.want)
		}
	}
}

func TestYAMLStream(t *testing.T) {
	var out strings.Builder
	p := Printer{Out: &out, Format: YAML, Stream: true}
	for range 2 {
		if err := p.Print(&List{Value: map[string]int{"count": 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if want := "---\ncount: 1\n---\ncount: 1\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestFormat(t *testing.T) {
	var f Format
	for _, name := range Formats() {
		if err := f.Set(name); err != nil || f.String() != name || !strings.Contains(f.Type(), name) {
			t.Errorf("%s: got %q, %v", name, f, err)
		}
	}
	if err := f.Set("xml"); err == nil || f != YAML {
		t.Errorf("xml: got %q, %v", f, err)
	}
}

func TestColorOf(t *testing.T) {
	for state, want := range map[string]string{"enabled": green, "draining": yellow, "disabled": red, "refused": red, "odd": ""} {
		if got := colorOf(state); got != want {
			t.Errorf("%s: got %q", state, got)
		}
	}
}

// TestTableStream: the heading comes once, and columns stay where they are.
func TestTableStream(t *testing.T) {
	var out strings.Builder
	p := Printer{Out: &out, Stream: true}
	for _, id := range []string{"long-1", "b"} {
		if err := p.Print(&List{Columns: []Column{{Name: "ID"}, {Name: "WHY"}}, Rows: [][]string{{id, "x"}}}); err != nil {
			t.Fatal(err)
		}
	}
	if want := "ID      WHY\nlong-1  x\nb       x\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
